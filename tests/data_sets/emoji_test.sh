#!/usr/bin/env bash
# scripts/data/emoji with stand-ins for apt, its packages and the font's reader: whole or not at all.
. "${BASH_SOURCE[0]%/*}/../setup/check.sh"

mkdir -p checkout/scripts bin debs
cp -r "$source/scripts/data" checkout/scripts/
script=checkout/scripts/data/emoji
sets=$XDG_CACHE_HOME/pipeline/data
set=$sets/emoji

# Packages: some emojis of each kind, and 400 that CLDR does not know. The font is JSON, read by a stand-in.
python3 - <<'PY'
import json, os, subprocess
SHARE = "usr/share"
EMOJIS = """
# group: People & Body
# subgroup: person-role
1F468 200D 1F692       ; fully-qualified     # x E4.0 man firefighter
1F468 1F3FD 200D 1F692 ; fully-qualified     # x E4.0 man firefighter: medium skin tone
1F469 200D 1F692       ; fully-qualified     # x E4.0 woman firefighter
# group: Symbols
# subgroup: heart
2764 FE0F              ; fully-qualified     # x E0.6 red heart
2764                   ; unqualified         # x E0.6 red heart
# group: Flags
# subgroup: country-flag
1F1E7 1F1FB            ; fully-qualified     # x E2.0 flag: Bouvet Island
1F1F3 1F1F4            ; fully-qualified     # x E2.0 flag: Norway
1F1F3 1F1FF            ; fully-qualified     # x E15.0 flag: Nowhere
# group: Objects
# subgroup: tool
"""
cmap = {0x1F468: "man", 0x1F469: "woman", 0x1F692: "engine", 0x200D: "joiner", 0x1F3FD: "medium",
        0x2764: "heart", 0x1F1E7: "b", 0x1F1FB: "v", 0x1F1F3: "n", 0x1F1F4: "o"}
ligatures = {"man": {"joiner engine": "fireman", "medium joiner engine": "toned"},
             "woman": {"joiner engine": "firewoman"}, "b": {"v": "bouvet"}, "n": {"o": "norway"}}
pictures = {glyph: glyph for glyph in ("fireman", "toned", "firewoman", "heart", "norway")}
pictures["bouvet"] = "norway"
for number in range(451):  # 51 of them of a family that would be in test if it were smaller
    name = f"tool {number}" if number < 400 else f"cartwheeling: {number}"
    EMOJIS += f"{0x20000 + number:X} ; fully-qualified # x E1.0 {name}\n"
    cmap[0x20000 + number] = pictures[name] = name
NAMES = """<ldml><annotations>
<annotation cp="\u2764">heart | love</annotation><annotation cp="\u2764" type="tts">red heart</annotation>
</annotations></ldml>"""
READER = """import json
from types import SimpleNamespace as Of

class TTFont(dict):
    def __init__(self, path, lazy):
        font = json.load(open(path))
        tables = [{first: [Of(Component=rest.split(), LigGlyph=glyph) for rest, glyph in found.items()]}
                  for first, found in font["ligatures"].items()]
        extended = [Of(ExtSubTable=Of(ligatures=one)) for one in tables]
        lookups = [Of(SubTable=[Of(mapping={})]), Of(SubTable=extended)]
        self["GSUB"] = Of(table=Of(LookupList=Of(Lookup=lookups)))
        pictures = {glyph: Of(imageData=text.encode()) for glyph, text in font["pictures"].items()}
        self["CBDT"] = Of(strikeData=[pictures])
        self.getBestCmap = lambda: {int(point): glyph for point, glyph in font["cmap"].items()}
"""
PACKAGES = {
    "fonts-noto-color-emoji": {f"{SHARE}/fonts/truetype/noto/NotoColorEmoji.ttf":
                               json.dumps({"cmap": cmap, "ligatures": ligatures, "pictures": pictures})},
    "unicode-cldr-core": {f"{SHARE}/unicode/cldr/common/annotations/en.xml": NAMES,
                          f"{SHARE}/unicode/cldr/common/annotationsDerived/en.xml": "<ldml/>"},
    "unicode-data": {f"{SHARE}/unicode/emoji/emoji-test.txt": EMOJIS},
    "python3-fonttools": {"usr/lib/python3/dist-packages/fontTools/ttLib.py": READER},
}
for package, files in PACKAGES.items():
    control = (f"Package: {package}\nVersion: 1.0-2\nArchitecture: all\nMaintainer: x <x@example.org>\n"
               "Description: x\n")
    for name, text in {"DEBIAN/control": control, **files}.items():
        os.makedirs(os.path.dirname(f"tree/{package}/{name}"), exist_ok=True)
        with open(f"tree/{package}/{name}", "w") as file:
            file.write(text)
    subprocess.run(["dpkg-deb", "--build", f"tree/{package}", f"debs/{package}_1.0-2_all.deb"], check=True,
                   stdout=subprocess.DEVNULL)
PY

# An apt that has one list and these packages; it fails, lacks one or waits to be killed as files ask for it.
cat >bin/apt-get <<'APT'
#!/usr/bin/env bash
. /etc/os-release
case $1 in
  update)
    [[ ! -e $WORK/offline ]] || { echo "E: no route to host" >&2; exit 100; }
    ;;
  indextargets)
    [[ ! -e $WORK/offline ]] || exit 0
    printf '%s\n' "Created-By: Packages" "Origin: Debian" "Version: 12.0" "Codename: ${VERSION_CODENAME-}" \
      "Component: main" "Architecture: $(dpkg --print-architecture)" "Filename: $WORK/bin/apt-get"
    ;;
  download)
    [[ ! -e $WORK/slow ]] || { touch "$WORK/waiting"; exec sleep 60; }
    for argument; do
      name=${argument%%/*}
      [[ ! -e $WORK/lacking-$name ]] || { echo "E: Unable to locate package $name" >&2; exit 100; }
      [[ ! -e $WORK/debs/${name}_1.0-2_all.deb ]] || cp "$WORK/debs/${name}_1.0-2_all.deb" .
    done
    ;;
esac
APT
printf '#!/bin/sh\n' >bin/apt-config
chmod +x bin/*
export PATH=$work/bin:$PATH WORK=$work

run() {
  status=0
  $script "$@" >output 2>&1 || status=$?
}
left() { find "$sets" -mindepth 1 -maxdepth 1 ! -name '*.lock' -printf '%f ' | sort; }

run --check
expect "nothing is there" "$status" 1
mkdir few
ln -s "$(python3 -c 'import sys; print(sys.executable)')" few/python3
PATH=$work/few run
expect "without apt" "$status $(grep -c 'error: apt-get is not on this system' output)" "1 1"
touch offline
run
expect "without a network" "$status $(grep -c 'error: apt-get update brought no Packages' output)" "1 1"
expect "it says what apt said" "$(grep -c 'no route to host' output)" 1
rm offline
touch lacking-unicode-data
run
expect "a package that is not there" "$status $(grep -c 'error: apt-get download did not bring' output)" "1 1"
expect "and what apt says of it" "$(grep -c 'Unable to locate package unicode-data' output)" 1
rm lacking-unicode-data
expect "nothing is left of these" "$(left)" ""

touch slow
$script >output 2>&1 &
for ((i = 0; i < 300; i++)); do [[ ! -e waiting ]] || break; sleep 0.1; done
kill -TERM $!
status=0
wait $! || status=$?
expect "interrupted, nothing is left" "$status $(left)" "143 "
rm slow

run
expect "the set is built" "$status $(left)" "0 emoji "
expect "without the flag that has no picture" "$(grep -c 'left out 1: no picture in the font' output)" 1
expect "and the one that looks as another" "$(grep -c 'left out 1: same picture as another emoji' output)" 1
expect "pictures" "$(find "$set/images" -name '*.png' | wc -l)" 456
expect "as in the font" "$(cat "$set/images/1f468-1f3fd-200d-1f692.png" "$set/images/2764.png")" "tonedheart"
expect "the shortest name for one picture" "$(find "$set/images" -name '1f1*')" "$set/images/1f1f3-1f1f4.png"
expect "a caption for each" "$(cat "$set"/pretrain-*.jsonl | wc -l)" 456
expect "with CLDR's words" "$(grep -h '"2764"' "$set"/pretrain-*.jsonl)" \
  '{"id": "2764", "image": "images/2764.png", "caption": "red heart: love"}'
expect "variants in one split" "$(grep -l 1f692 "$set"/pretrain-*.jsonl | wc -l)" 1
expect "a large family in train" "$(grep -c cartwheeling "$set/pretrain-train.jsonl")" 51
python3 - "$set" <<'PY'
import json, os, sys
folder = sys.argv[1]
for split in ("train", "val", "test"):
    talks = json.load(open(f"{folder}/sft-{split}.json"))
    lines = [json.loads(line) for line in open(f"{folder}/pretrain-{split}.jsonl")]
    assert sorted(t["id"] for t in talks if "image" in t) == sorted(l["id"] for l in lines), split
    assert all(os.path.exists(f"{folder}/{line['image']}") for line in lines), split
    print(split, len(lines), sum("image" not in talk for talk in talks), file=open("splits", "a"))
PY
expect "the same pictures in both kinds of file" "$(cut -d' ' -f1 splits | tr '\n' ' ')" "train val test "
expect "some conversations without one" "$(awk '{sum += $3} END {print (sum > 4 && sum < 40)}' splits)" 1
expect "what the README lists" "$(grep -c '^| `[a-z0-9.-]*` |' "$set/README.md")" 7
expect "and where it comes from" "$(grep -c 'fonts-noto-color-emoji 1.0-2' "$set/README.md")" 1
expect "the link" "$(readlink checkout/data/emoji)" "$set"
run --check
expect "it is there" "$status" 0
before=$(cd "$set" && sha256sum manifest.json)
run --force
expect "made again, it is the same" "$status $(cd "$set" && sha256sum manifest.json)" "0 $before"
touch offline
run
expect "and is not fetched again" "$status $(grep -c 'in place and verified: 456 pictures' output)" "0 1"

printf X | dd of="$set/images/2764.png" bs=1 conv=notrunc status=none
run --check
expect "--check looks at sizes only" "$status" 0
run
expect "a damaged picture is noticed" "$status $(grep -c 'images does not have the checksum' output)" "1 1"
rm "$set/images/2764.png"
run --check
expect "--check notices a missing one" "$status" 1
rm offline
run
expect "it is put right" "$status $(cd "$set" && sha256sum manifest.json)" "0 $before"
rm -r "$set" debs/unicode-data*
run
expect "apt brings less than asked" "$status $(grep -c 'did not bring unicode-data' output) $(left)" "1 1 "
expect "nothing is written into the scripts' folder" "$(find checkout/scripts -name '*.pyc')" ""
finish
