#!/usr/bin/env python3
"""unpack.py PIN_FILE FOLDER TARGET: puts the parts of the wheels that PIN_FILE's `# unpack` lines name into TARGET.

FOLDER holds the wheels, or what pip installed from them: that is linked, not copied.

Files appear in TARGET whole: each is written beside it first. The list of what is there, with sizes, is the last thing written; a
target without it is not complete. zipfile compares every member's checksum while it reads.
"""
import fnmatch
import os
import pathlib
import shutil
import sys
import time
import zipfile


class Progress:
    """As progress() in lib.sh: one moving line on a terminal, elsewhere a line every 15 seconds."""

    def __init__(self):
        self.terminal = sys.stderr.isatty()
        self.shown = time.monotonic()

    def show(self, done):
        now = time.monotonic()
        if now - self.shown < (0.2 if self.terminal else 15):
            return
        self.shown = now
        begin, end = ("\r", "\033[K") if self.terminal else ("", "\n")
        print(f"{begin}setup: unpacked {done // 1000000} MB", end=end, file=sys.stderr, flush=True)

    def end(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def unpack(wheels: list[pathlib.Path], target: pathlib.Path, wanted) -> dict[str, int]:
    """Unpacks the members that are `wanted`; returns their sizes by name."""
    sizes = {}
    done, progress = 0, Progress()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.is_dir() or not wanted(member.filename):
                    continue
                path = target / member.filename
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_name(f".{path.name}.part")
                with archive.open(member) as source, open(part, "wb") as sink:
                    while block := source.read(1 << 20):
                        sink.write(block)
                        done += len(block)
                        progress.show(done)
                os.replace(part, path)
                sizes[member.filename] = member.file_size
    progress.end()
    return sizes


def link(folder: pathlib.Path, target: pathlib.Path, wanted) -> dict[str, int]:
    """Links what is installed in `folder`; returns the sizes of the files that are `wanted`, by name."""
    sizes = {}
    for top in ("torch", "nvidia"):
        (target / top).unlink(missing_ok=True)
        (target / top).symlink_to(folder / top)
        for place, _, names in os.walk(folder / top):
            for path in (pathlib.Path(place, name) for name in names):
                if wanted(str(path.relative_to(folder))):
                    sizes[str(path.relative_to(folder))] = path.stat().st_size
    return sizes


def main() -> None:
    pin_file, folder, target = map(pathlib.Path, sys.argv[1:])
    patterns = [p for line in pin_file.read_text().splitlines() if line.startswith("# unpack ") for p in line.split()[2:]]
    state = target / "unpacked"
    state.mkdir(parents=True, exist_ok=True)
    listing = state / f"{pin_file.stem}.files"
    listing.unlink(missing_ok=True)

    matched = set()

    def wanted(name: str) -> bool:
        hits = [p for p in patterns if fnmatch.fnmatch(name, p)]
        matched.update(hits)
        return bool(hits)

    wheels = sorted(folder.glob("*.whl"))
    sizes = unpack(wheels, target, wanted) if wheels else link(folder, target, wanted)
    # pip installs of torch lack headers that only the nccl backend needs: scripts/setup/build leaves it out then.
    unmatched = [p for p in patterns if p not in matched and (wheels or p.endswith(".so") or ".so." in p)]
    if unmatched:
        sys.exit(f"{pin_file.name}: {folder} has no {', '.join(unmatched)}")

    listed = [f"{size} {name}\n" for name, size in sorted(sizes.items())]
    shutil.copyfile(pin_file, state / pin_file.name)
    (state / f"{pin_file.stem}.libraries").write_text("".join(line for line in listed if ".so" in line))
    part = listing.with_suffix(".part")
    part.write_text("".join(listed))
    os.replace(part, listing)


main()
