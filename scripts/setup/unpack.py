#!/usr/bin/env python3
"""unpack.py PIN_FILE WHEEL_FOLDER TARGET: unpacks the parts of the wheels that PIN_FILE's `# unpack` lines name into TARGET.

Files appear in TARGET whole: each is written beside it first. The list of what was unpacked, with sizes, is the last thing written; a
target without it is not complete. zipfile compares every member's checksum while it reads.
"""
import fnmatch
import os
import pathlib
import shutil
import sys
import zipfile


def main() -> None:
    pin_file, wheel_folder, target = map(pathlib.Path, sys.argv[1:])
    patterns = [p for line in pin_file.read_text().splitlines() if line.startswith("# unpack ") for p in line.split()[2:]]
    state = target / "unpacked"
    state.mkdir(parents=True, exist_ok=True)
    listing = state / f"{pin_file.stem}.files"
    listing.unlink(missing_ok=True)

    sizes = {}
    matched = set()
    for wheel in sorted(wheel_folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                hits = [p for p in patterns if fnmatch.fnmatch(member.filename, p)]
                if member.is_dir() or not hits:
                    continue
                matched.update(hits)
                path = target / member.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f".{path.name}.part")
                with archive.open(member) as source, open(part, "wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                os.replace(part, path)
                sizes[member.filename] = member.file_size
    unmatched = [p for p in patterns if p not in matched]
    if unmatched:
        sys.exit(f"{pin_file.name}: no wheel has {', '.join(unmatched)}")

    listed = [f"{size} {name}\n" for name, size in sorted(sizes.items())]
    shutil.copyfile(pin_file, state / pin_file.name)
    (state / f"{pin_file.stem}.libraries").write_text("".join(line for line in listed if ".so" in line))
    part = listing.with_suffix(".part")
    part.write_text("".join(listed))
    os.replace(part, listing)


main()
