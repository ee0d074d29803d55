#!/usr/bin/env bash
# Runs the generators of the checked-in fixtures and golden manifests again, with the packages in the versions that
# made them, and says what has changed. Not part of CI: the goldens are there so that tests need no package.
#
#     tests/interop/renew.sh            says what is other than what is checked in; exit code 1 if anything is
#     tests/interop/renew.sh --write    and puts it in place
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/judges.sh"
mkdir -p "$cache"
python=$(python_with_packages) || { echo "the Python packages could not be installed; see $cache/python.log" >&2; exit 1; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/apr-renew.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
changed=0

renew() {
    local data=$root/$1 script
    shift
    # The generators write beside themselves, so they run in a copy that has nothing else in it.
    rm -rf "$scratch/data"
    mkdir -p "$scratch/data"
    cp "$data"/*.py "$scratch/data"
    for script in "$@"; do
        (cd "$scratch/data" && "$python" -B "$script")
    done
    "$python" -B "$here/compare_renewed.py" "$data" "$scratch/data" "${write:-}" || changed=1
}

write=
[ "${1:-}" = --write ] && write=--write
renew plugins/gguf/tests/data generate.py build.py
renew plugins/safetensors/tests/data generate.py handmade.py
coders=$(python_with_coders) || { echo "the Python packages could not be installed; see $cache/coders.log" >&2; exit 1; }
python=$coders renew plugins/apr/tests/data generate.py
renew plugins/quants/tests/data generate.py
[ "$changed" = 0 ] && echo "renew: nothing has changed" || echo "renew: see above for what has changed"
exit "$changed"
