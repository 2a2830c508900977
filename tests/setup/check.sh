# What the tests of the set-up scripts share; sourced with the checkout's folder as $1. Leaves the current folder a temporary one.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_CACHE_HOME=$work/cache
unset CDPATH

failures=0
# expect WHAT ACTUAL WANTED
expect() {
  if [[ $2 != "$3" ]]; then
    printf 'FAILED: %s\n  got:    %s\n  wanted: %s\n' "$1" "$2" "$3" >&2
    failures=$((failures + 1))
  fi
}
finish() {
  ((failures == 0)) || exit 1
  echo "passed"
}
