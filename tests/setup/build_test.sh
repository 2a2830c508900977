#!/usr/bin/env bash
# scripts/setup/build: when it configures. scripts/test: that clang must be there. lib.sh: lines of progress.
. "${BASH_SOURCE[0]%/*}/check.sh"

unset PIPELINE_TEST_SET # of the run of the tests that this is part of
mkdir -p checkout/scripts checkout/cmake bin
cp -r "$source/scripts/setup" "$source/scripts/test" checkout/scripts/
cp "$source/cmake/TorchVersion.cmake" checkout/cmake/

# Stand-ins: CMake notes that it ran and writes what the script looks at; ninja has nothing to do.
cat >bin/cmake <<'STEP'
#!/usr/bin/env bash
[[ $* != *--fresh* ]] || exit 1
echo configure >>"$WORK/steps"
[[ ! -e $WORK/broken ]] || exit 1
for argument; do
  [[ $argument != -DPIPELINE_TORCH_DIR=* ]] || torch=${argument#*=}
  [[ $argument != -DPIPELINE_WITH_PARQUET=* ]] || parquet=${argument#*=}
done
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nPIPELINE_TORCH_DIR:PATH=%s\nPIPELINE_WITH_PARQUET:BOOL=%s\n' "$PWD" "$torch" "$parquet" >build/release/CMakeCache.txt
touch build/release/build.ninja
STEP
printf '#!/bin/sh\necho "ninja: no work to do."\n' >bin/ninja
printf '#!/bin/sh\necho "$*" >>"$WORK/steps.torch"\n[ ! -e "$WORK/offline" ]\n' >checkout/scripts/setup/torch
chmod +x bin/*
export WORK=$work

build() {
  : >steps
  status=0
  PATH=$work/bin:$PATH checkout/scripts/setup/build release "$@" >output 2>&1 || status=$?
}
build
expect "the first build configures" "$status $(<steps)" "0 configure"
expect "all of it has Parquet" "$(<steps.torch)" "parquet"
touch offline
build
expect "the second does not, and goes without Parquet where there is no network" "$status $(<steps)" "0 "
build parquet_reader
expect "who names it is told" "$status" "1"
rm offline
if [[ -f /var/lib/dpkg/status ]]; then
  touch -d '2000-01-01' checkout/build/release/.configured
  touch broken
  build
  expect "packages have changed since" "$status $(<steps)" "1 configure"
  rm broken
  build
  expect "a configuration that failed is done again" "$status $(<steps)" "0 configure"
fi

# What is built of the sources as they are, which scripts/pipeline asks lib.sh.
. checkout/scripts/setup/lib.sh
for set in cpu cuda nccl; do
  mkdir -p "$torch_dir/unpacked"
  cp "checkout/scripts/setup/wheels/$set.txt" "$torch_dir/unpacked/"
  echo "1 x" >"$torch_dir/unpacked/$set.files"
  : >"$torch_dir/unpacked/$set.libraries"
done
mkdir -p checkout/{core,plugins,backends} checkout/tests/c_plugins checkout/build/release/bin
touch checkout/CMakeLists.txt checkout/CMakePresets.json checkout/build/release/bin/pipeline
chmod +x checkout/build/release/bin/pipeline
find checkout/{CMakeLists.txt,CMakePresets.json,cmake,core,plugins,backends,tests} -exec touch -d '1 hour ago' {} +
rm checkout/build/release/.built
has() { (built "$1" && echo "yes" || echo "no"); }
build pipeline
expect "the program, and no plugin" "$(has pipeline) $(has single)" "yes no"
build single
expect "a plugin beside it" "$(has pipeline) $(has single) $(has ddp)" "yes yes no"
touch -d '1 second' checkout/core
build single
touch -d '1 minute ago' checkout/core
expect "of newer sources the plugin alone" "$(has pipeline) $(has single)" "no yes"
build
expect "everything" "$(has pipeline) $(has ddp)" "yes yes"

# scripts/test with all that it needs but clang.
mkdir tools
for tool in bash readlink sed mkdir; do ln -s "$(command -v $tool)" tools/; done
for step in packages torch build; do printf '#!/bin/bash\n' >checkout/scripts/setup/$step; done
status=0
PATH=$work/tools bash checkout/scripts/test >output 2>&1 || status=$?
expect "the tests need clang" "$status $(grep -c 'error: clang is missing' output)" "1 1"

# Elsewhere than on a terminal: not before 15 seconds, and only what is new.
{
  SECONDS=5 && progress "too early" 900 200
  SECONDS=20 && progress "first" 300 200
  SECONDS=40 && progress "hardly more" 450 200
  SECONDS=60 && progress "second" 500 200
  SECONDS=70 && progress "too early" 900 200
} 2>said
expect "lines of progress" "$(<said)" $'setup: first\nsetup: second'
mkdir sized
expect "the size of a folder that vanishes" "$(megabytes sized gone; echo $?)" $'1\n0'
finish
