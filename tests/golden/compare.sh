#!/usr/bin/env bash
# Compares apr with llama.cpp's converter, while a table is being written: compare.sh [NAME ...]. README.md says more.
#
# APR                the program (target/release/apr)
# APR_COMPARE_KEEP   where folders and files stay (target/compare)
# APR_INTEROP_CACHE, APR_GOLDEN_PYTHON, APR_GOLDEN_LLAMA as in generate.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"

root=$(cd "$here/../.." && pwd)
python=${APR_GOLDEN_PYTHON:-$(python_with_transformers)}
llama=${APR_GOLDEN_LLAMA:-$(llama_converter)}
exec "$python" -B "$here/compare.py" "$llama" --apr "${APR:-$root/target/release/apr}" --keep "${APR_COMPARE_KEEP:-$root/target/compare}" "$@"
