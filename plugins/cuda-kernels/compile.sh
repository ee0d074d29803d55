#!/usr/bin/env bash
# Compiles the kernels of cuda/ to ptx/, or, with --check, compares what they compile to with what is there. Fetches NVIDIA's
# compiler as Python packages, pinned in requirements.txt; no GPU and no toolkit is needed.
#
# APR_CUDA_PYTHON   the folder of the virtual environment [default: target/cuda-python]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${APR_CUDA_PYTHON:-$here/../../target/cuda-python}
if ! [ -x "$python/bin/python" ] || ! "$python/bin/python" -c 'import nvidia.cuda_nvrtc, nvidia.cuda_nvcc, zstandard' 2>/dev/null; then
    python3 -m venv "$python" && "$python/bin/pip" install -q -r "$here/requirements.txt" || {
        echo "SKIPPED: NVIDIA's compiler could not be fetched" >&2
        exit 3
    }
fi
exec "$python/bin/python" "$here/compile.py" "$@"
