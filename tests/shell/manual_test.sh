#!/usr/bin/env bash
# manual_test.sh PROGRAM: the manual page has every verb and option of the help, and mandoc finds nothing wrong with it.
set -euo pipefail
page=$(mktemp)
trap 'rm -f "$page"' EXIT
"$1" man >"$page"
# The only date that there is would be that of the build.
if mandoc -T lint -W warning "$page" | grep -v 'missing date' >&2; then exit 1; fi
text=$(mandoc -T utf8 -O width=100 "$page" | sed 's/.\x08//g')
failures=0
while read -r verb _; do
  [[ $text == *"pipeline $verb "* ]] || {
    echo "FAILED: the page has no verb $verb" >&2
    failures=1
  }
  while read -r option; do
    [[ $text == *"$option"* ]] || {
      echo "FAILED: the page has no $option, an option of $verb" >&2
      failures=1
    }
  done < <("$1" "$verb" --help | sed '/^Example/,$d' | grep -oE -- '--[a-z][a-z-]+')
done < <("$1" complete '')
[[ $text == *"Exit codes: 0 done"* && $text == *"    pipeline run configs/summarization.toml"* ]] || {
  echo "FAILED: the page lacks the exit codes or the example" >&2
  failures=1
}
((failures == 0)) && echo "passed"
