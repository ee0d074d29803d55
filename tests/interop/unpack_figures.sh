#!/usr/bin/env bash
# Prints what unpacking a checkpoint of FP8, GPTQ, AWQ or NF4 to BF16 costs, beside the Rust program `anamnesis`, which does so in memory.
# Not part of CI: it needs 2 GB on disk, or in memory, and a machine that does nothing else.
#
#     cargo build --release && tests/interop/unpack_figures.sh [ROUNDS [MIB]]
#
# TMPDIR                   the file system that is measured
# APR_ANAMNESIS            the program, if it is there already; it is built in the cache otherwise
# APR, APR_INTEROP_CACHE   as for run.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/built.sh"
program=${APR_ANAMNESIS:-$(anamnesis)} || { echo "anamnesis could not be built; see $cache/anamnesis.log" >&2; exit 1; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/apr-figures.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
APR=$apr APR_ANAMNESIS=$program python3 -B "$here/unpack_figures.py" "$scratch" "$@"
