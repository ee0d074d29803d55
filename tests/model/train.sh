#!/usr/bin/env bash
# Trains the model again: train.sh [--check]. With --check, into a scratch folder, and its perplexity must be within the band of README.md;
# without, over weights/ and held-out.txt: then run golden.sh --search, choose prompts, and run golden.sh.
#
# It takes a quarter of an hour of one core, and needs Debian's apt-get and dpkg for the texts.
#
# APR_INTEROP_CACHE  where the judges and the texts are kept (~/.cache/apr-interop)
# APR_GOLDEN_PYTHON  an interpreter that has the packages already
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../interop/judges.sh"
mkdir -p "$cache"

python=${APR_GOLDEN_PYTHON:-$(python_with_transformers)}
texts=$cache/model-texts
if [ "${1:-}" = --check ]; then
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/apr-model.XXXXXX")
    trap 'rm -rf "$scratch"' EXIT
    nice -n 5 "$python" -B "$here/train.py" "$texts" "$scratch"
    "$python" -B "$here/band.py" "$scratch"
else
    nice -n 5 "$python" -B "$here/train.py" "$texts" "$here/weights"
    "$python" -B "$here/texts.py" "$texts" --held-out > "$here/held-out.txt"
fi
