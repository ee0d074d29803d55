#!/usr/bin/env bash
# Builds the engine and every plugin for the browser, and compares what they convert with the native program.
# Exit 3: what it needs is not there. Debian's compiler can build the standard library for wasm32 from source.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
target=$root/target/wasm
apr=${APR:-$root/target/release/apr}

missing() {
    echo "$1"
    exit 3
}

# The oldest version that this project takes, in `1.MINOR`.
oldest=$(sed -n 's/^rust-version = "1\.\([0-9]*\).*/\1/p' ../../Cargo.toml)

have() {
    [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -d /usr/lib/rustlib/src/rust/library ] &&
        command -v wasm-ld >/dev/null && [ "$(minor)" -ge "$oldest" ]
}

minor() {
    /usr/bin/rustc --version | sed -n 's/^rustc 1\.\([0-9]*\).*/\1/p' | grep . || echo 0
}

command -v node >/dev/null || missing "node is not there"
# Not installed from here: they bring a `cargo` of their own, which would come before rustup's in many a PATH.
have || missing "Debian's rustc-web, cargo-web, rust-web-src (1.$oldest or later) and lld are not there"
[ -x "$apr" ] || missing "$apr is not there: cargo build --release"

RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld \
    /usr/bin/cargo build --quiet --locked --release -Zbuild-std=std,panic_abort \
    --target wasm32-unknown-unknown --target-dir "$target"
module=$target/wasm32-unknown-unknown/release/apr_wasm.wasm
ls -l "$module" | awk '{ print "the module has " $5 " bytes" }'
node run.mjs "$module" "$apr" "$root" "$target/converted"
