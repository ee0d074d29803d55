#!/usr/bin/env bash
# Writes plugins/architectures/CENSUS.md: census.sh [--check]. With --check, compares and writes nothing.
#
# APR_INTEROP_CACHE  where the judges are kept (~/.cache/apr-interop)
# APR_GOLDEN_PYTHON  an interpreter that has the packages already
# APR_GOLDEN_LLAMA   llama.cpp's sources as the package below carries them (vendor/llama.cpp)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"

python=${APR_GOLDEN_PYTHON:-$(python_with_transformers)}
llama=${APR_GOLDEN_LLAMA:-$(llama_converter)}
exec "$python" "$here/census.py" "$llama" "$@"
