"""What a gpu-check found: items with a verdict and figures, as one JSON file and one table.

The file: {"device", "pack", "items": [{"name", "verdict": "passed" | "failed" | "skipped", "seconds", "figures": {name: number}, "said"}]}.
It is written after every item, so that a command that is cut off leaves what it had.
"""

import json
import os
import textwrap
import time
from pathlib import Path
from threading import Lock


class Skipped(Exception):
    """This item cannot run here; the text says why."""


class Record:
    """Items may end at the same time."""

    def __init__(self, path, head):
        self.path, self.lock = path, Lock()
        self.content = {**head, "items": []}

    def item(self, name, check):
        """Runs check(figures); it fills `figures`, and raises when it does not hold."""
        figures, begin = {}, time.perf_counter()
        try:
            said = check(figures)
            verdict = "passed"
        except Skipped as why:
            verdict, said = "skipped", str(why)
        except Exception as error:  # whatever it is, the rest goes on
            verdict, said = "failed", f"{type(error).__name__}: {error}" if not isinstance(error, AssertionError) else str(error)
        done = {"name": name, "verdict": verdict, "seconds": round(time.perf_counter() - begin, 2), "figures": figures, "said": said or ""}
        with self.lock:
            self.content["items"].append(done)
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.content, indent=1))
            os.replace(part, self.path)
            print(line(done), flush=True)

    def verdict(self, verdict):
        return [item for item in self.content["items"] if item["verdict"] == verdict]


def number(value):
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def line(item):
    """For people: as many lines as it takes, none of which ends between a figure and its name. All that was said is in the file."""
    figures = "  ".join(f"{name} {number(value)}".replace(" ", "\xa0") for name, value in item["figures"].items())
    said = " | ".join(text[:160] for text in (item["said"].splitlines()[-3:] if item["verdict"] == "failed" else item["said"].splitlines()[:1]))
    head = f"{item['verdict']:8}{item['seconds']:7.1f} s  {item['name']:36}"
    return textwrap.fill(f"{head} {figures}{'  ' if figures and said else ''}{said}", 160, subsequent_indent=" " * (len(head) + 1),
                         break_long_words=False, break_on_hyphens=False).replace("\xa0", " ")


def table(content):
    items = content["items"]
    counts = ", ".join(f"{sum(i['verdict'] == v for i in items)} {v}" for v in ("passed", "failed", "skipped"))
    seconds = sum(item["seconds"] for item in items)
    return "\n".join([f"device: {content['device']}; packed from {content['pack']}; {seconds:.0f} s", *map(line, items), counts])


def compare(old_path, new_path):
    """What changed from one record to another, as text."""
    old, new = (json.loads(Path(p).read_text()) for p in (old_path, new_path))
    before = {item["name"]: item for item in old["items"]}
    lines = [f"from {old['device']}, {old['pack']}", f"to   {new['device']}, {new['pack']}"]
    for item in new["items"]:
        was = before.pop(item["name"], None)
        if was is None:
            lines.append(f"new      {line(item)}")
            continue
        if was["verdict"] != item["verdict"]:
            lines.append(f"{item['name']}: {was['verdict']} -> {item['verdict']}  {item['said'][:200]}")
        for name, value in item["figures"].items():
            past = was["figures"].get(name)
            if isinstance(past, (int, float)) and isinstance(value, (int, float)) and value != past:
                ratio = f" ({value / past:.3f})" if past else ""
                lines.append(f"{item['name']}: {name} {number(past)} -> {number(value)}{ratio}")
    lines += [f"gone     {name}" for name in before]
    return "\n".join(lines)
