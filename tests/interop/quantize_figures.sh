#!/usr/bin/env bash
# Prints what a folder of BF16 to a Q4_K_M GGUF file costs, beside llama.cpp's own quantizing of a GGUF file that was made
# before. Not part of CI: it needs 3 GB on disk, and a machine that does nothing else.
#
#     cargo build --release && tests/interop/quantize_figures.sh [ROUNDS]
#
# TMPDIR                   the file system that is measured
# APR, APR_INTEROP_CACHE   as for run.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/built.sh"
python=$(python_with_packages) || { echo "the Python packages could not be installed; see $cache/python.log" >&2; exit 1; }
llama_asker > /dev/null || { echo "llama.cpp could not be built; see $cache/llama.log" >&2; exit 1; }
sources=$(llama_sources)

# The judges are built in a hurry. What is measured is built as llama.cpp builds it: -O3, and no -m flag for ggml's base.
fast=$sources/fast
program=$fast/ask_llama-$(cksum < "$here/ask_llama.cpp" | tr ' ' -)
if [ ! -e "$program" ]; then
    rm -rf "$fast"
    mkdir -p "$fast"
    flags="-O3 -DNDEBUG -w -D_GNU_SOURCE -I$sources/objects -I$sources/include -I$sources/src -I$sources/ggml/include -I$sources/ggml/src"
    for file in ggml.c ggml-quants.c; do
        env -u CFLAGS "${CC:-cc}" -std=gnu11 $flags -c "$sources/ggml/src/$file" -o "$fast/$file.o"
    done
    env -u CXXFLAGS "${CXX:-c++}" -std=gnu++17 $flags -c "$sources/src/llama-quant.cpp" -o "$fast/llama-quant.cpp.o"
    others=$(ls "$sources"/objects/*.o | grep -v -e 'ggml-src-ggml.c.o' -e 'ggml-src-ggml-quants.c.o' -e 'src-llama-quant.cpp.o')
    "${CXX:-c++}" -std=c++17 $flags "$here/ask_llama.cpp" "$fast"/*.o $others -lm -lpthread -ldl -o "$program.new"
    mv "$program.new" "$program"
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/apr-figures.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
APR=$apr APR_INTEROP_ASKER=$program "$python" -B "$here/quantize_figures.py" "$scratch" "$@"
