#!/usr/bin/env bash
# Writes plugins/quants/tests/types.toml anew: builds llama.cpp (once, in the folder that APR_INTEROP_CACHE names) and asks
# it which type it would write each tensor of synthetic models in. Plain `cargo test` compares with that file.
#
#     tests/interop/quantize_types.sh [FILE]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/judges.sh"
mkdir -p "$cache"

python=$(python_with_packages)
# This builds llama.cpp itself too.
llama_asker > /dev/null
sources=$(llama_sources)
program=$sources/quantize_types-$(cksum < "$here/quantize_types.cpp" | tr ' ' -)
if [ ! -e "$program" ]; then
    "${CXX:-c++}" -std=c++17 -O1 -D_GNU_SOURCE "-I$sources/include" "-I$sources/ggml/include" "$here/quantize_types.cpp" \
        "$sources"/objects/*.o -lm -lpthread -ldl -o "$program.new"
    mv "$program.new" "$program"
fi
"$python" -B "$here/quantize_types.py" "$program" "${1:-$here/../../plugins/quants/tests/types.toml}"
