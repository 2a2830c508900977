#!/usr/bin/env bash
# scripts/pipeline: when it sets up, when it does not, what it hands on, and which data it fetches.
. "${BASH_SOURCE[0]%/*}/check.sh"

mkdir -p checkout/scripts/data checkout/tests/c_plugins checkout/{cmake,core,plugins,backends,configs}
cp "$source/scripts/pipeline" checkout/scripts/
cp -r "$source/scripts/setup" checkout/scripts/
cp "$source/cmake/TorchVersion.cmake" checkout/cmake/
touch checkout/CMakeLists.txt checkout/CMakePresets.json checkout/core/a.cpp

# Stand-ins: each set-up step notes that it ran; the build makes a program that shows its arguments, and needs what the file `needs` has.
for step in packages torch; do
  printf '#!/bin/sh\necho %s >>"%s/steps"\n' $step "$work" >checkout/scripts/setup/$step
done
cat >checkout/scripts/setup/build <<'STEP'
#!/usr/bin/env bash
set -e
. "${BASH_SOURCE[0]%/*}/lib.sh"
echo "build $*" >>"$root/../steps"
mkdir -p "$build/bin"
cat >"$build/bin/pipeline" <<'PROGRAM'
#!/usr/bin/env bash
[[ ${1-} != needs ]] || exec cat "${0%/bin/*}/../../../needs"
[[ ${1-} != die ]] || kill -TERM $$
printf "[%s]" "$@"
exit 75
PROGRAM
chmod +x "$build/bin/pipeline"
mkdir -p "$build/lib/pipeline/plugins"
printf '%s\n' tasks/one strategies/two >"$build/lib/pipeline/plugins/plugins.txt"
shift
echo "$*" >"$build/.built"
STEP
: >needs
. checkout/scripts/setup/lib.sh
wheel_sets
for set in "${sets[@]}"; do
  mkdir -p "$torch_dir/unpacked"
  cp "checkout/scripts/setup/wheels/$set.txt" "$torch_dir/unpacked/"
  echo "1 x" >"$torch_dir/unpacked/$set.files"
  : >"$torch_dir/unpacked/$set.libraries"
done

run() {
  : >steps
  status=0
  output=$(checkout/scripts/pipeline "$@" 2>&1) || status=$?
}
steps() { tr '\n' ',' <steps; }
age() { find checkout -exec touch -d '1 hour ago' {} +; }

run --help
expect "the first run sets up" "$(steps)" "packages,torch,build release pipeline,"
age
touch checkout/build/release/.built
run run 'a b' ''
expect "nothing to do" "$(steps)" ""
expect "arguments arrive as they are" "$output" "[run][a b][]"
expect "the exit code is the program's" "$status" 75
run die
expect "a signal's death is the program's" "$status" 143

printf 'one\nsomebody-elses\n' >needs
run run x
expect "a plugin that is named for the first time" "$(steps)" "build release lib/pipeline/plugins/tasks/one.so,"
echo pipeline lib/pipeline/plugins/{tasks/one,strategies/two}.so >checkout/build/release/.built
run run x
expect "one that is there" "$(steps)" ""
touch checkout/core/a.cpp
run run x
expect "the program and the plugins that are needed, of newer sources" "$(steps)" "packages,torch,build release pipeline,build release lib/pipeline/plugins/tasks/one.so,"
echo strategies >needs
age
echo pipeline one >checkout/build/release/.built
run plan x
expect "all of a kind" "$(steps)" "build release strategies,"
echo product >checkout/build/release/.built
run plan x
expect "all is there" "$(steps)" ""
: >needs

touch checkout/core/a.cpp
run --help
expect "a newer source" "$(steps)" "packages,torch,build release pipeline,"
age
touch checkout/build/release/.built
touch -d '1 hour' checkout/core/b.cpp
touch -d '1 minute ago' checkout/core
run --help
expect "a new source" "$(steps)" "packages,torch,build release pipeline,"
rm checkout/core/b.cpp
age
touch checkout/build/release/.built
touch -d '1 second' checkout/core
run --help
expect "a removed source shows in its folder" "$(steps)" "packages,torch,build release pipeline,"
age
touch checkout/build/release/.built
rm "$torch_dir/unpacked/cpu.files"
run --help
expect "LibTorch is gone" "$(steps)" "packages,torch,build release pipeline,"
echo "1 x" >"$torch_dir/unpacked/cpu.files"

: >steps
rm -f checkout/build/release/.built
run complete run x
expect "a press of the tab key builds nothing" "$(steps) $output" " [complete][run][x]"
echo pipeline >checkout/build/release/.built

# A data script notes its calls; `--check` says whether its output is there.
cat >checkout/scripts/data/words <<'DATA'
#!/bin/sh
root=${0%/*}/../..
echo "words $*" >>"$root/../steps"
[ "${1-}" = --check ] && { test -e "$root/words"; exit; }
touch "$root/words"
DATA
chmod +x checkout/scripts/data/words
printf '# A run.\n# data: scripts/data/words\n[run]\nname = "x"\n' >checkout/configs/base.toml
printf 'extends = "base.toml"\n[run]\nname = "y"\n' >checkout/configs/child.toml
age
touch checkout/build/release/.built
run explain checkout/configs/base.toml
expect "verbs that read no data fetch none" "$(steps)" ""
run run checkout/configs/child.toml --set a=b
expect "the data of an extended config is fetched" "$(steps)" "words --check,words ,"
run run checkout/configs/base.toml
expect "data that is there is not fetched again" "$(steps)" "words --check,"
cd checkout/configs
: >../../steps
../scripts/pipeline run child.toml >/dev/null || true
cd ../..
expect "a config named without a folder" "$(steps)" "words --check,"
printf '# data: scripts/data/none\n' >checkout/configs/bad.toml
run run checkout/configs/bad.toml
expect "a data script that is not there" "$status $(grep -c scripts/data/none <<<"$output")" "1 1"

# Without the data the program runs all the same: its files may be others, or it names what is missing.
printf '#!/bin/sh\nexit $STATUS\n' >checkout/scripts/data/words
STATUS=3 run run checkout/configs/base.toml --set task.data.train=mine.jsonl
expect "a data script that fails is a warning" "$status $(grep -c 'warning: scripts/data/words ended with status 3' <<<"$output")" "75 1"
expect "and the program runs" "${output##*$'\n'}" "[run][checkout/configs/base.toml][--set][task.data.train=mine.jsonl]"
STATUS=130 run run checkout/configs/base.toml
expect "an interrupted data script ends it" "$status $(grep -c '\[run\]' <<<"$output")" "130 0"
finish
