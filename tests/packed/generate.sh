#!/bin/sh
# Writes the fixtures anew, or those whose names contain one of the arguments. Fetches 3 GB of packages once.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${APR_PACKED_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/apr-packed}
[ -x "$cache/bin/python" ] || python3 -m venv "$cache"
"$cache/bin/pip" install --quiet --requirement "$here/requirements.txt"
# They look for torch while they are built, and ask for older versions of others.
[ -x "$cache/bin/auto-round" ] || BUILD_CUDA_EXT=0 "$cache/bin/pip" install --quiet --no-deps --no-build-isolation \
    autoawq==0.2.9 gptqmodel==7.7.0 auto-round==0.16.1
"$cache/bin/python" -B "$here/generate.py" "$@"
# Two versions of one package: the older one lies beside.
[ -d "$cache/older" ] || "$cache/bin/pip" install --quiet --no-deps --target "$cache/older" compressed-tensors==0.11.0 frozendict
PYTHONPATH="$cache/older" "$cache/bin/python" -B "$here/generate.py" --older "$@"
