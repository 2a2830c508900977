#!/usr/bin/env bash
# scripts/setup/python-env: which environment serves, when one is made, which are removed.
. "${BASH_SOURCE[0]%/*}/check.sh"

mkdir -p checkout/scripts checkout/cmake checkout/tests/parity bin
cp -r "$source/scripts/setup" checkout/scripts/
cp "$source/cmake/TorchVersion.cmake" checkout/cmake/
printf '# Both.\none-more==1\n\ntwo==2  # of two\n' >checkout/tests/parity/requirements.txt
echo 'two==2' >checkout/tests/parity/few-requirements.txt

# Stand-ins: an environment is a folder with a python whose pip makes the folders that it is known by.
cat >bin/python3 <<'STEP'
#!/usr/bin/env bash
case $1 in
-c) echo 3.11 ;;
-m)
  mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
  cp "$WORK/bin/pip" "$3/bin/python"
  ;;
esac
STEP
cat >bin/pip <<'STEP'
#!/usr/bin/env bash
[[ $1 != -c ]] || exit 0
echo install >>"$WORK/steps"
[[ -d $TMPDIR ]] && cd "${0%/*}/../lib/python3.11/site-packages"
for argument; do
  [[ ! $argument =~ ^([a-z-]+)==([0-9.]+)$ ]] || mkdir -p "${BASH_REMATCH[1]//-/_}-${BASH_REMATCH[2]}.dist-info"
done
STEP
printf '#!/bin/sh\nprintf "a b c d\\n0 0 0 99999\\n"\n' >bin/df
chmod +x bin/*
export WORK=$work

environment() {
  : >steps
  python=$(PATH=$work/bin:$PATH checkout/scripts/setup/python-env "$@" 2>output) || cat output >&2
}
environment
first=$python
expect "the first one is made" "$(<steps) $([[ -x $first && ! -e ${first%/bin/python}/tmp ]] && echo there)" "install there"
environment
expect "it serves the same requirements" "$(<steps) $python" " $first"
environment "$work/checkout/tests/parity/requirements.txt"
expect "and the same ones without a file that adds nothing" "$(<steps) $python" " $first"
environment "$work/checkout/tests/parity/few-requirements.txt"
expect "and fewer" "$(<steps) $python" " $first"
sed -i 's/# Both./# Comments decide nothing./' checkout/tests/parity/requirements.txt
environment
expect "and other comments" "$(<steps) $python" " $first"

mkdir -p "$XDG_CACHE_HOME/pipeline/python-3.11-left" "$XDG_CACHE_HOME/pipeline/python-env"
touch -d '15 days ago' "${first%/bin/python}/.complete"
sed -i 's/two==2/two==3/' checkout/tests/parity/*requirements.txt
environment
expect "another version is another environment" "$(<steps) $([[ $python != "$first" ]] && echo other)" "install other"
expect "what is incomplete or unused goes, other folders stay" "$(cd "$XDG_CACHE_HOME/pipeline" && ls -d python-*/ | tr '\n' ' ')" \
  "$(basename "${python%/bin/python}")/ python-env/ "
finish
