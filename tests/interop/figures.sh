#!/usr/bin/env bash
# Prints what opening a 10 GB checkpoint and converting a 2 GB one costs, beside `cp` and beside torch and safetensors.
# Not part of CI: it needs torch, 8 GB on disk, and a machine that does nothing else.
#
#     cargo build --release && tests/interop/figures.sh [ROUNDS]
#
# APR_FIGURES_MIB    the size of what is converted (2048)
# TMPDIR             the file system that is measured
# APR, APR_INTEROP_CACHE, APR_INTEROP_PYTHON, APR_INTEROP_TORCH_PYTHON   as for run.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/built.sh"
python=$(python_with_packages) || { echo "the Python packages could not be installed; see $cache/python.log" >&2; exit 1; }
torch=$(python_with_torch) || { echo "torch could not be installed; see $cache/golden.log" >&2; exit 1; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/apr-figures.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
APR=$apr APR_INTEROP_TORCH_PYTHON=$torch "$python" -B "$here/figures.py" "$scratch" "$@"
