"""Sets that are made of the pairs of scripts/data/debian-descriptions, with its splits."""
import json
import os
import subprocess

from data_set import DataSet, Unavailable, file_entry, sync
from splits import SPLITS

PAIRS = "debian-descriptions"
README = """# {name}: {count} {noun} about the packages of {release}

Made of the descriptions of `{pairs}` by `scripts/data/{name}`, with its splits; checksums are in `manifest.json`. Texts are
under the licences of their packages.

{table}
"""


class PackageRecords(DataSet):
    """A subclass has `name`, `noun`, what its records are called, and records(pairs), those of a split's pairs."""

    format = 1
    files = tuple(f"{split}.jsonl" for split in SPLITS)

    def make(self, folder, work):
        if subprocess.run([os.path.join(os.path.dirname(os.path.realpath(__file__)), PAIRS)], check=False).returncode != 0:
            raise Unavailable(f"{PAIRS} could not be built", "see above")
        source = os.path.join(self.cache, PAIRS)
        with open(os.path.join(source, "manifest.json"), encoding="utf-8") as file:
            release = json.load(file)["release"]
        files = {}
        for name in self.files:
            path, count = os.path.join(folder, name), 0
            with open(os.path.join(source, name), encoding="utf-8") as pairs, open(path, "w", encoding="utf-8", newline="\n") as file:
                for record in self.records(map(json.loads, pairs)):
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                    count += 1
                sync(file)
            files[name] = file_entry(path, **{self.noun: count})
        count = sum(entry[self.noun] for entry in files.values())
        rows = [f"| file | {self.noun} | bytes |", "| --- | --- | --- |"]
        rows += [f"| {name} | {entry[self.noun]} | {entry['bytes']} |" for name, entry in files.items()]
        with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
            file.write(README.format(name=self.name, count=count, noun=self.noun, release=release, pairs=PAIRS, table="\n".join(rows)))
        return {"release": release, self.noun: count, "files": files}

    def summary(self, manifest):
        return f"{manifest[self.noun]} {self.noun}"

    def describe(self, manifest):
        self.say(f"{manifest['release']}: {self.summary(manifest)} in {self.target}")
        for name, entry in manifest["files"].items():
            self.say(f"  {name}: {entry[self.noun]} {self.noun}, {entry['bytes']} bytes")
