#!/usr/bin/env bash
# zsh_fish_test.sh PROGRAM: zsh reads the script, and completes with it on a terminal of its own; fish says what it would offer.
set -euo pipefail
PATH=$(dirname "$1"):$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HOME=$work XDG_CONFIG_HOME=$work XDG_DATA_HOME=$work PIPELINE_PLUGIN_PATH=
mkdir configs
: >configs/a.toml
mkdir 'two words'
: >'two words/b.toml'
failures=0
expect() {
  if [[ $2 != "$3" ]]; then
    printf 'FAILED: %s\n  got:    %s\n  wanted: %s\n' "$1" "$2" "$3" >&2
    failures=1
  fi
}

pipeline completion fish >pipeline.fish
fish_offers() { fish --no-config -c 'source pipeline.fish; complete -C $argv[1]' "$1" | cut -f1 | tr '\n' ' '; }
expect "fish: a verb" "$(fish_offers 'pipeline evalu')" "evaluate "
expect "fish: a file" "$(fish_offers 'pipeline run configs/')" "configs/a.toml "
expect "fish: behind a folder with a space" "$(fish_offers 'pipeline run two\ words/')" "two words/b.toml "
expect "fish: a key" "$(fish_offers 'pipeline run configs/a.toml --set train.max_st')" "train.max_steps= "
expect "fish: a value" "$(fish_offers 'pipeline run --set train.precision=b')" "train.precision=bf16 "

pipeline completion zsh >_pipeline
zsh -n _pipeline
# zpty gives zsh a terminal; ^A and ^E go to the line's ends, so that print says what it has become.
zsh_makes() {
  zsh -f -c '
    zmodload zsh/zpty
    zpty z zsh -f -i
    zpty -w z "PROMPT= RPROMPT=; unsetopt zle_bracketed_paste; fpath=($PWD \$fpath); autoload -Uz compinit && compinit -u -D; bindkey -e; print rea\"\"dy"
    zpty -r -m z line "*ready*"
    zpty -w -n z "$1"$'"'\\t\\x01'"'"print -r -- \"<"$'"'\\x05'"'">\""$'"'\\n'"'
    zpty -r -m z line $'"'*\\n<*>*'"'
    print -r -- "$line"' zsh "$1" | tr -d '\r' | grep -oE '^<.*>$' | tail -n 1
}
expect "zsh: a verb" "$(zsh_makes 'pipeline evalu')" "<pipeline evaluate>"
expect "zsh: a file" "$(zsh_makes 'pipeline run configs/a')" "<pipeline run configs/a.toml>"
expect "zsh: behind a folder with a space" "$(zsh_makes 'pipeline run two\ words/')" '<pipeline run two\ words/b.toml>'
expect "zsh: a table" "$(zsh_makes 'pipeline run configs/a.toml --set tr')" "<pipeline run configs/a.toml --set train.>"
expect "zsh: a value" "$(zsh_makes 'pipeline run --set train.precision=b')" "<pipeline run --set train.precision=bf16>"
((failures == 0)) && echo "passed"
