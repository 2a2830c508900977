"""scripts/gpu/record.py: verdicts, figures, the file after every item, the table, and what `compare` says."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop())
sys.path.insert(0, str(ROOT / "scripts" / "gpu"))

from record import Record, Skipped, compare, table  # noqa: E402


def record(folder, speed, broken):
    made = Record(Path(folder) / f"{speed}.json", {"device": "H100", "pack": "abc"})

    def measured(figures):
        figures["tokens/s"] = speed
        return "first line\nsecond"

    def wrong(figures):
        figures["seen"] = 1
        assert not broken, "1, expected 2"

    def needs(figures):
        raise Skipped("needs a device")

    def crashes(figures):
        raise OSError("no such file")

    for name, check in (("speed", measured), ("value", wrong), ("device", needs), ("file", crashes)):
        made.item(name, check)
        assert json.loads(made.path.read_text())["items"][-1]["name"] == name  # what is cut off keeps what it had
    return made


class RecordTest(unittest.TestCase):
    def test_items_and_comparison(self):
        with tempfile.TemporaryDirectory() as folder:
            old, new = record(folder, 100.0, True), record(folder, 150.0, False)
            self.assertEqual([i["verdict"] for i in old.content["items"]], ["passed", "failed", "skipped", "failed"])
            self.assertEqual(old.content["items"][1]["figures"], {"seen": 1})
            self.assertEqual(old.content["items"][3]["said"], "OSError: no such file")
            text = table(old.content)
            self.assertIn("device: H100; packed from abc", text)
            self.assertIn("1, expected 2", text)
            self.assertNotIn("second", text)
            self.assertTrue(text.endswith("1 passed, 2 failed, 1 skipped"))
            changes = compare(old.path, new.path)
            self.assertIn("speed: tokens/s 100 -> 150 (1.500)", changes)
            self.assertIn("value: failed -> passed", changes)
            self.assertNotIn("device:", changes)

    def test_a_run_without_a_pack_says_what_to_do(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cp", "-r", str(ROOT / "scripts"), folder], check=True)
            run = subprocess.run([f"{folder}/scripts/gpu-check", "run"], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 2)
            self.assertIn("scripts/gpu-check pack", run.stderr)


unittest.main()
