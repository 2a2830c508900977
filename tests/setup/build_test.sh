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
done
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nPIPELINE_TORCH_DIR:PATH=%s\n' "$PWD" "$torch" >build/release/CMakeCache.txt
touch build/release/build.ninja
STEP
printf '#!/bin/sh\necho "ninja: no work to do."\n' >bin/ninja
chmod +x bin/*
export WORK=$work

build() {
  : >steps
  status=0
  PATH=$work/bin:$PATH checkout/scripts/setup/build release >output 2>&1 || status=$?
}
build
expect "the first build configures" "$status $(<steps)" "0 configure"
build
expect "the second does not" "$status $(<steps)" "0 "
if [[ -f /var/lib/dpkg/status ]]; then
  touch -d '2000-01-01' checkout/build/release/.configured
  touch broken
  build
  expect "packages have changed since" "$status $(<steps)" "1 configure"
  rm broken
  build
  expect "a configuration that failed is done again" "$status $(<steps)" "0 configure"
fi

# scripts/test with all that it needs but clang.
mkdir tools
for tool in bash readlink sed mkdir; do ln -s "$(command -v $tool)" tools/; done
for step in packages torch build; do printf '#!/bin/bash\n' >checkout/scripts/setup/$step; done
status=0
PATH=$work/tools bash checkout/scripts/test >output 2>&1 || status=$?
expect "the tests need clang" "$status $(grep -c 'error: clang is missing' output)" "1 1"

# Elsewhere than on a terminal: not before 15 seconds, and only what is new.
. checkout/scripts/setup/lib.sh
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
