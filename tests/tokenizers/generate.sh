#!/usr/bin/env bash
# Makes saved/ again: generate.sh [--check] [NAME ...]. With --check, compares and writes nothing.
#
# APR_INTEROP_CACHE   where the judges are kept (~/.cache/apr-interop)
# APR_SAVING_PYTHON   an interpreter that has the packages already, transformers 5.23 with torch
# APR_GOLDEN_LLAMA    llama.cpp's sources as the package below carries them (vendor/llama.cpp)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"

python=${APR_SAVING_PYTHON:-$(python_with_transformers_5)}
llama=${APR_GOLDEN_LLAMA:-$(llama_converter)}
exec "$python" "$here/generate.py" "$llama" "$@"
