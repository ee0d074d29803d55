#!/usr/bin/env bash
# The judges with everything that takes too long for each run of `.ci/run`: every variant of every family.
#
#     cargo build --release && tests/interop/weekly.sh [CASES ...]
set -eu
APR_INTEROP_WEEKLY=1 exec "$(dirname "$0")/run.sh" "$@"
