# Finds the apr that is measured, and where the judges are set up. Sourced by *_figures.sh and figures.sh, which make `here`.
# APR and CARGO_TARGET_DIR say where apr is, if not in target/release.

root=$(cd "$here/../.." && pwd)
apr=${APR:-${CARGO_TARGET_DIR:-$root/target}/release/apr}
[ -x "$apr" ] || { echo "figures: $apr is not there: run \`cargo build --release\` first" >&2; exit 1; }
. "$here/judges.sh"
mkdir -p "$cache"
