#!/usr/bin/env bash
# Makes measured/ again: measured.sh.
#
# APR                the program that makes the GGUF files (target/release/apr)
# APR_INTEROP_CACHE  where the judges are kept (~/.cache/apr-interop)
# APR_LLAMA_TOOLS    the folder of llama-perplexity and llama-imatrix; ten minutes build them otherwise
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"
apr=${APR:-${CARGO_TARGET_DIR:-$here/../../target}/release/apr}
[ -x "$apr" ] || { echo "measured: $apr is not there: run \`cargo build --release\` first" >&2; exit 1; }
tools=${APR_LLAMA_TOOLS:-$(llama_tools)}
exec python3 -B "$here/measured.py" "$apr" "$tools"
