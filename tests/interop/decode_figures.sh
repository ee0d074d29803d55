#!/usr/bin/env bash
# Prints how fast apr computes prompts and answers with a model of over 1 GB in Q4_K_M, Q8_0 and BF16, beside llama.cpp's own
# llama-bench and beside the speed of memory; how long the first token takes, and how much memory. Not part of CI: it needs 8 GB
# in the cache, as much memory, and a machine that does nothing else.
#
#     cargo build --release && tests/interop/decode_figures.sh [--rounds N] [--models TYPES] [--prompts LENGTHS] [--answer LENGTH]
#
# --threads 1              without the rounds of two threads
# APR, APR_INTEROP_CACHE   as for run.sh
# APR_LLAMA_TOOLS          the folder of an optimised llama-bench; nine minutes build one otherwise
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/built.sh"
python=$(python_with_packages) || { echo "the Python packages could not be installed; see $cache/python.log" >&2; exit 1; }
tools=${APR_LLAMA_TOOLS:-$(llama_tools)} || { echo "llama.cpp's programs could not be built; see $cache/llama-tools.log" >&2; exit 1; }

APR=$apr APR_LLAMA_TOOLS=$tools "$python" -B "$here/decode_figures.py" "$cache/decode-1" "$@"
