#!/usr/bin/env bash
# scripts/setup/unpack.py and torch_unpacked: what is kept, and that damage and changed pins are seen.
. "${BASH_SOURCE[0]%/*}/check.sh"

mkdir -p checkout/scripts checkout/cmake wheels
cp -r "$source/scripts/setup" checkout/scripts/
cp "$source/cmake/TorchVersion.cmake" checkout/cmake/
python3 - <<'PY'
import zipfile
with zipfile.ZipFile("wheels/a-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("torch/lib/libone.so", "one")
    wheel.writestr("torch/lib/libother.so", "not asked for")
    wheel.writestr("torch/include/deep/a.h", "header")
PY
pins=checkout/scripts/setup/wheels/cpu.txt
cat >$pins <<'PINS'
a==1
# unpack torch/lib/libone.so torch/include/*
PINS
. checkout/scripts/setup/lib.sh
unpack() { python3 checkout/scripts/setup/unpack.py $pins wheels "$torch_dir"; }
seen() { if torch_unpacked cpu; then echo complete; else echo incomplete; fi; }

expect "nothing is there" "$(seen)" incomplete
unpack
expect "all is there" "$(seen)" complete
expect "what is unpacked" "$(cd "$torch_dir/torch" && find . -type f | sort | tr '\n' ' ')" "./include/deep/a.h ./lib/libone.so "
expect "sizes are listed" "$(<"$torch_dir/unpacked/cpu.files")" $'6 torch/include/deep/a.h\n3 torch/lib/libone.so'

printf 'on' >"$torch_dir/torch/lib/libone.so"
expect "a library cut short" "$(seen)" incomplete
unpack
rm "$torch_dir/torch/lib/libone.so"
expect "a library removed" "$(seen)" incomplete
unpack
rm "$torch_dir/unpacked/cpu.files"
expect "killed before the list was written" "$(seen)" incomplete
unpack
echo '# another version' >>$pins
expect "other pins" "$(seen)" incomplete
unpack
expect "unpacked again" "$(seen)" complete

cp $pins pins
printf '# unpack torch/lib/libnone.so\n' >>$pins
expect "a part that no wheel has" "$(unpack 2>&1 | grep -c libnone.so)" 1
cp pins $pins

# A damaged wheel ends with an error and leaves no complete tree.
python3 - <<'PY'
path = "wheels/a-1-py3-none-any.whl"
data = bytearray(open(path, "rb").read())
data[data.index(b"header")] ^= 1
open(path, "wb").write(data)
PY
status=0
unpack 2>/dev/null || status=$?
expect "a damaged wheel fails" "$((status != 0))" 1
expect "a damaged wheel is not complete" "$(seen)" incomplete

# What pip installed is linked, not copied, and never written to.
rm -rf "$torch_dir"
mkdir -p site/torch/include/deep site/nvidia
printf one >site/torch/lib.so
printf "__version__ = '%s'\n" "$torch_wheel" >site/torch/version.py
printf 'a==1\n# unpack torch/lib.so torch/include/*\n' >$pins
printf '# unpack torch/none/*\n' >checkout/scripts/setup/wheels/nccl.txt
cp checkout/scripts/setup/wheels/nccl.txt checkout/scripts/setup/wheels/cuda.txt
sed -i "1i torch==${torch_wheel%+*} x" $pins
mkdir -p checkout/backends/nccl
from() {
  status=0
  checkout/scripts/setup/torch --from "$@" >output 2>&1 || status=$?
}
from site
expect "an installed torch is linked" "$status $(seen) $(readlink "$torch_dir/torch")" "0 complete $work/site/torch"
from site
expect "once more" "$status $(seen)" "0 complete"
rm site/torch/lib.so
expect "it was taken away" "$(seen)" incomplete
from site
expect "a library that is not there" "$status $(grep -c "cpu.txt: .*site has no torch/lib.so" output)" "1 1"
sed -i 's/2/3/' site/torch/version.py
from site
expect "another version" "$status $(grep -c "site holds torch .*, and the project is built and tested with $torch_pinned and $torch_other" output)" "1 1"
from nowhere
expect "no torch there" "$status $(grep -c 'there is no torch in nowhere' output)" "1 1"

# The other version that the project works with is this checkout's choice.
chosen() { (. checkout/scripts/setup/lib.sh && echo "$torch_wheel ${torch_dir##*/}"); }
mkdir -p checkout/build/release
touch checkout/build/release/.built site/torch/lib.so
printf "__version__ = '%s'\n" "$torch_other" >site/torch/version.py
from site
expect "the other version" "$status $(chosen) $(ls checkout/build/release/.built 2>/dev/null)" "0 $torch_other torch-${torch_other%+*} "
status=0
checkout/scripts/setup/torch >output 2>&1 || status=$?
expect "it stays" "$status $(chosen) $(<output)" "0 $torch_other torch-${torch_other%+*} "
rm site/torch/lib.so
checkout/scripts/setup/torch >output 2>&1 || status=$?
expect "it was taken away, too" "$status $(grep -c 'or go back to .* (scripts/setup/torch --pinned)' output)" "1 1"
touch site/torch/lib.so
printf "__version__ = '%s'\n" "$torch_pinned" >site/torch/version.py
from site
expect "back to the pinned one" "$(chosen)" "$torch_pinned torch-${torch_pinned%+*}"

rm "$torch_dir/torch" && mkdir "$torch_dir/torch"
from site
expect "never over an unpacked one" "$status $(grep -c 'holds an unpacked torch already' output)" "1 1"

finish
