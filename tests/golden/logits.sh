#!/usr/bin/env bash
# Makes the goldens of logits again: logits.sh [--check] [NAME ...]. With --check, compares and writes nothing.
#
# APR_INTEROP_CACHE  where the judges are kept (~/.cache/apr-interop)
# APR_GOLDEN_PYTHON  an interpreter that has the packages already
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"

python=${APR_GOLDEN_PYTHON:-$(python_with_transformers)}
exec "$python" -B "$here/logits.py" "$@"
