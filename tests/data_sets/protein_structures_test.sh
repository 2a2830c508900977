#!/usr/bin/env bash
# scripts/data/protein-structures and what it shares with other data scripts: whole or not at all, damage noticed, nothing left behind.
. "${BASH_SOURCE[0]%/*}/../setup/check.sh"

mkdir -p checkout/scripts
cp -r "$source/scripts/data" checkout/scripts/
script=checkout/scripts/data/protein-structures
sets=$XDG_CACHE_HOME/pipeline/data
set=$sets/protein-structures

# A python whose pip notes what it was asked for, asks the stand-in for the package's build as a real one does, and brings a small archive.
python3 -m venv --without-pip python
site=$(python/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir "$site/pip"
cat >"$site/pip/__main__.py" <<'PIP'
import os, shutil, sys
import setuptools.build_meta as build
work = os.environ["WORK"]
pins, archives = (sys.argv[sys.argv.index(name) + 1] for name in ("--requirement", "--dest"))
shutil.copy(pins, os.path.join(work, "pins"))
if os.path.exists(os.path.join(work, "offline")):
    sys.exit("ERROR: no route to host")
print(build.prepare_metadata_for_build_wheel(os.environ["TMPDIR"]), file=open(os.path.join(work, "metadata"), "w"))
os.mkdir(archives)
shutil.copy(os.path.join(work, "archive.tar.gz"), archives)
PIP
export PATH=$work/python/bin:$PATH WORK=$work

# The archive: a line of text for each file of the set, and one that is not of it.
python3 - <<'PY'
import bz2, importlib.machinery, importlib.util, io, sys, tarfile
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("script", "checkout/scripts/data/protein-structures")
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("script", loader))
loader.exec_module(script)
unpacked = {value: key for key, value in script.COMPRESSED.items()}
with tarfile.open("archive.tar.gz", "w:gz") as archive:
    for name in [*script.FILES, "dssp/1mr1D_failing.pdb.gz"]:
        data = f"this is {name}\n".encode()
        data = bz2.compress(data) if name in unpacked else data
        member = tarfile.TarInfo(script.ROOT + unpacked.get(name, name))
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
PY

run() {
  status=0
  $script "$@" >output 2>&1 || status=$?
}
left() { find "$sets" -mindepth 1 -maxdepth 1 ! -name '*.lock' -printf '%f ' | sort; }

run --check
expect "nothing is there" "$status" 1
touch offline
run
expect "without a network it fails" "$status $(grep -c 'error: pip did not bring' output) $(grep -c 'no route to host' output)" "1 1 1"
expect "and leaves nothing" "$(left)" ""
rm offline
run
expect "the set is built" "$status $(left)" "0 protein-structures "
expect "from the pinned archive" "$(cut -d: -f1 pins)" "MDAnalysisTests==2.11.0 --hash=sha256"
expect "without running its build" "$(<metadata)" "MDAnalysisTests-2.11.0.dist-info"
expect "files as they are" "$(cat "$set/dssp/1ahsA.pdb.gz")" "this is dssp/1ahsA.pdb.gz"
expect "and unpacked where need be" "$(cat "$set/6msm.pdb")" "this is 6msm.pdb"
expect "all, and no others" "$(find "$set" -type f | wc -l) $(find "$set" -name '*failing*')" "67 "
expect "what the README lists" "$(grep -c '^| `' "$set/README.md")" 65
expect "the link" "$(readlink checkout/data/protein-structures)" "$set"
run --check
expect "it is there" "$status" 0
run --into elsewhere --check
expect "and elsewhere it is not" "$status" 1
run --into elsewhere
expect "a link below another folder" "$status $(readlink elsewhere/data/protein-structures)" "0 $set"
run --into elsewhere --check
expect "which is there now" "$status" 0
rm archive.tar.gz
run
expect "and is not fetched again" "$status $(grep -c 'in place and verified: 65 structures' output)" "0 1"

printf X | dd of="$set/1hvr.pdb" bs=1 seek=2 conv=notrunc status=none
run --check
expect "--check looks at sizes only" "$status" 0
before=$(sha256sum "$set/1hvr.pdb")
run
expect "damage is noticed" "$status $(grep -c checksum output)" "1 1"
expect "and a set that cannot be made again stays" "$(sha256sum "$set/1hvr.pdb")" "$before"
rm "$set/1hvr.pdb" checkout/data/protein-structures
run --check
expect "a missing file" "$status" 1
mkdir "$sets/.protein-structures-left"
run
expect "what a killed process left goes" "$(left)" "protein-structures "
run --nonsense
expect "unknown arguments" "$status" 2
expect "nothing is written into the scripts' folder" "$(find checkout/scripts -name '*.pyc')" ""
finish
