#!/usr/bin/env bash
# Prints how fast `apr kernels bench` multiplies matrices with a vector, beside ggml in the same rounds and beside the speed of
# memory. Not part of CI: it needs a machine that does nothing else.
#
#     cargo build --release && tests/interop/kernel_figures.sh [--rounds N] [--types TYPES] [--shapes SHAPES] [--threads N]
#
# APR, APR_INTEROP_CACHE   as for run.sh
# APR_LLAMA_TOOLS          the folder of an optimised llama-bench, inside the folder it was built in; nine minutes build one otherwise
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/built.sh"
tools=${APR_LLAMA_TOOLS:-$(llama_tools)} || { echo "llama.cpp's programs could not be built; see $cache/llama-tools.log" >&2; exit 1; }
build=$tools/..
ggml=$build/../sources/ggml
program=$build/kernel_figures
if [ ! "$program" -nt "$here/kernel_figures.cpp" ]; then
    "${CXX:-c++}" -O2 -std=c++17 -I"$ggml/include" "$here/kernel_figures.cpp" -o "$program" \
        "$build"/ggml/src/libggml.a "$build"/ggml/src/libggml-cpu.a "$build"/ggml/src/libggml-base.a -fopenmp -lpthread -ldl -lm
fi
APR=$apr GGML_PROGRAM=$program python3 -B "$here/kernel_figures.py" "$@"
