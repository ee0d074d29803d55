#!/bin/sh
# Builds the plugins with another compiler than the host's and has the host use them: the interface must not depend on
# who compiled it. Then builds one as releases are built (LTO, stripped) and has the host load that.
#
# The other compiler is the one that APR_SECOND_RUSTC names, else the first that is found among rustup's toolchains and the
# distribution's /usr/bin/rustc, of another version than the host's and not too old. Without one, exit 3 after the rest.
set -eu
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-target}
fixture=plugins/gguf/tests/data/align-64.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "second compiler: FAILED: $*" >&2
    exit 1
}

# Converts the fixture there and back with nothing but the plugins of one folder, which must give the same bytes.
use() {
    mkdir "$work/$1"
    cp "$2"/libapr_plugin_gguf.* "$2"/libapr_plugin_apr.* "$work/$1/" 2>/dev/null || true
    rm -f "$work/$1"/*.rlib "$work/$1"/*.d
    export APR_PLUGIN_PATH="$work/$1"
    "$work/bin/apr" plugins list > "$work/list" || fail "$1: apr plugins list"
    ! grep -q 'E_' "$work/list" || { cat "$work/list"; fail "$1: a plugin is refused"; }
    "$work/bin/apr" convert --arch none "$fixture" "$work/$1/there.apr" || fail "$1: convert"
    "$work/bin/apr" convert --arch none "$work/$1/there.apr" "$work/$1/back.gguf" || fail "$1: convert back"
    cmp "$fixture" "$work/$1/back.gguf" || fail "$1: the bytes differ"
    echo "second compiler: $1: ok"
}

# Of the whole workspace, as the tests build it.
cargo build --quiet --workspace --bin apr
# Away from the target folder, beside which apr would find the plugins that the host's compiler built.
mkdir "$work/bin"
cp "$target/debug/apr" "$work/bin/apr"

cargo rustc --quiet --release --target-dir "$target/second/release" -p apr-plugin-gguf --lib --crate-type cdylib \
    --config 'profile.release.lto="fat"' --config 'profile.release.strip="symbols"'
cargo rustc --quiet --release --target-dir "$target/second/release" -p apr-plugin-apr --lib --crate-type cdylib \
    --config 'profile.release.lto="fat"' --config 'profile.release.strip="symbols"'
use "LTO, stripped" "$target/second/release/release"

# Compilers that this one may not be or cannot be are passed over; one that was asked for is taken as it is.
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
second=${APR_SECOND_RUSTC:-}
for found in "${RUSTUP_HOME:-$HOME/.rustup}"/toolchains/*/bin/rustc /usr/bin/rustc; do
    [ -z "$second" ] || break
    version=$("$found" --version 2>/dev/null) || continue
    [ "$version" != "$(rustc --version)" ] || continue
    number=$(echo "$version" | cut -d ' ' -f 2)
    if [ "$(printf '%s\n' "$oldest" "$number" | sort -V | head -n 1)" = "$oldest" ]; then
        second=$found
    else
        echo "second compiler: $found is older than $oldest: $version"
    fi
done
if [ -z "$second" ]; then
    echo "second compiler: SKIPPED: there is none; \`rustup toolchain install\` another version, or name one by APR_SECOND_RUSTC"
    exit 3
fi
version=$("$second" --version) || fail "APR_SECOND_RUSTC: $second does not run"
if [ "$version" = "$(rustc --version)" ]; then
    echo "second compiler: SKIPPED: $second is the host's own compiler"
    exit 3
fi
RUSTC=$second cargo build --quiet --target-dir "$target/second/other" -p apr-plugin-gguf -p apr-plugin-apr
use "$version" "$target/second/other/debug"
