#!/usr/bin/env bash
# Fills in what transformers' classes say where a configuration is silent: defaults.sh [--check]. defaults.py says how.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"

python=$(python_with_transformers_5)
exec "$python" -B "$here/defaults.py" "$@" < <("$(python_with_transformers)" -B "$here/defaults.py" --say 2> /dev/null)
