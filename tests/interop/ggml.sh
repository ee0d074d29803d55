#!/usr/bin/env bash
# ggml as the judge of our block types: builds its quantizers of the sources in a crate that is on the registry, without any
# instructions beyond x86-64's own, for that build decides what bytes are right (a fused multiply-add moves bits). Then has
# it encode and decode the seeded sets, and compares all blocks with ours and with the digests that are checked in.
#
#     tests/interop/ggml.sh          builds and judges; exit 3 if this machine cannot
#     tests/interop/ggml.sh build    builds, and prints the library's path, for APR_GGML
#
# APR_INTEROP_CACHE  where it is kept (~/.cache/apr-interop)
# APR_TYPES          some of the types only
set -eu

# This version of the crate carries ggml 0.26.0.
crate=llama-cpp-sys-2
crate_version=0.1.161
ggml_version=0.26.0

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${APR_INTEROP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/apr-interop}
built=$cache/ggml-$ggml_version-quants
library=$built/libggml-base.so
log=$cache/ggml-quants.log

cannot() {
    echo "SKIPPED ggml: $1" >&2
    exit 3
}

wrong() {
    echo "ggml: $1" >&2
    exit 1
}

# The folder of the crate's sources, as cargo fetched them for a manifest of our own.
sources() {
    local manifest=$built/Cargo.toml
    printf '[package]\nname = "ggml-sources"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\n%s = "=%s"\n' \
        "$crate" "$crate_version" > "$manifest"
    : > "$built/lib.rs"
    CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20 cargo fetch --manifest-path "$manifest" >> "$log" 2>&1 || return 1
    cargo metadata --offline --format-version 1 --manifest-path "$manifest" 2>> "$log" |
        grep -o "\"manifest_path\":\"[^\"]*/$crate-$crate_version/Cargo.toml\"" | head -n 1 |
        sed 's/^"manifest_path":"//; s/\/Cargo.toml"$//'
}

# One source file; what was called is written down, so that its flags can be looked at.
compile() {
    local command=("$@")
    echo "${command[*]}" >> "$built/commands"
    env -u CFLAGS -u CXXFLAGS -u CPPFLAGS -u RUSTFLAGS nice -n 10 "${command[@]}" >> "$log" 2>&1 ||
        wrong "a file of ggml does not compile; see $log"
}

build() {
    local folder ggml file
    [ "$(uname -m)" = x86_64 ] || cannot "the bytes that count are those of x86-64"
    for file in gcc g++ cargo; do
        command -v "$file" > /dev/null || cannot "there is no $file"
    done
    mkdir -p "$built" || cannot "the folder $built cannot be made"
    rm -f "$built/commands" "$built"/*.o
    folder=$(sources) && [ -n "$folder" ] || cannot "the crate $crate $crate_version could not be fetched (no network?); see $log"
    ggml=$folder/llama.cpp/ggml
    grep -q 'GGML_VERSION_MINOR *26)' "$ggml/CMakeLists.txt" && grep -q 'GGML_VERSION_PATCH *0)' "$ggml/CMakeLists.txt" ||
        wrong "$folder does not hold ggml $ggml_version"
    # A compiler that was set up to use more than x86-64's own instructions would build another ggml.
    ! gcc -O3 -dM -E -x c /dev/null | grep -q '__FMA__\|__AVX__' || wrong "gcc uses AVX or FMA by itself here"
    printf '#pragma once\n#define GGML_VERSION "%s"\n#define GGML_COMMIT "unknown"\n' "$ggml_version" > "$built/ggml-version.h"
    set -- -O3 -DNDEBUG -fPIC -w -D_GNU_SOURCE "-I$built" "-I$ggml/include" "-I$ggml/src"
    for file in ggml.c ggml-alloc.c ggml-quants.c; do
        compile gcc -std=gnu11 "$@" -c "$ggml/src/$file" -o "$built/$file.o"
    done
    for file in ggml.cpp ggml-backend.cpp ggml-backend-meta.cpp ggml-opt.cpp ggml-threading.cpp gguf.cpp; do
        compile g++ -std=gnu++17 "$@" -c "$ggml/src/$file" -o "$built/$file.o"
    done
    ! grep -q ' -m\| -ffast-math\| -Ofast' "$built/commands" || wrong "a flag that moves bits is in $built/commands"
    compile g++ -shared "$built"/*.o -lm -lpthread -o "$library.new"
    mv "$library.new" "$library"
}

mkdir -p "$cache" || cannot "the folder $cache cannot be made"
exec 8> "$cache/ggml-quants.lock"
command -v flock > /dev/null && flock 8
if [ ! -e "$library" ]; then
    echo "interop: building ggml $ggml_version, for its quantizers" >&2
    build
fi
exec 8>&-
if [ "${1:-}" = build ]; then
    echo "$library"
    exit 0
fi
cd "$root"
# Asks ggml for every type and set, and compares with ours and with the digests that are checked in; the other test says that
# these are of every type.
export APR_GGML=$library
# Of the whole workspace, whose features its tests are built with: with its own alone, all would be compiled again.
judged() {
    cargo test --quiet --workspace --test main -- --exact "$@" > "$cache/ggml-tests.log" 2>&1 || { cat "$cache/ggml-tests.log" >&2; return 1; }
    grep -q '1 passed' "$cache/ggml-tests.log" || wrong "no test is called $1"
}
judged golden::differing --ignored --nocapture
judged golden::golden_knows_every_type_and_case
