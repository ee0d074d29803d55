#!/usr/bin/env bash
# Makes golden.json again: golden.sh [--check | --search]. --check compares and writes nothing.
#
# APR                the program under test (target/release/apr)
# APR_INTEROP_CACHE  where the judges are kept (~/.cache/apr-interop)
# APR_GOLDEN_PYTHON  an interpreter that has the packages already
# APR_LLAMA_TOOLS    the folder of an optimised llama-perplexity; nine minutes build one otherwise
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"

apr=${APR:-${CARGO_TARGET_DIR:-$here/../../target}/release/apr}
[ -x "$apr" ] || { echo "golden: $apr is not there: run \`cargo build --release\` first" >&2; exit 1; }
python=${APR_GOLDEN_PYTHON:-$(python_with_transformers)}
tools=${APR_LLAMA_TOOLS:-$(llama_tools)}
exec "$python" -B "$here/golden.py" "$apr" "$tools" "$@"
