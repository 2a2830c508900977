"""What the tests of tasks in Python share: a folder with a configuration, and the program run in it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIPELINE = os.environ.get("PIPELINE", str(ROOT / "build/release/bin/pipeline"))
PACKAGE = str(ROOT / "build/release/lib/pipeline/python")
PYTHON = os.environ.get("PIPELINE_PYTHON", "")

CONFIG = """
[task]
plugin = "python"
file = "{file}"
{task}
[optimizer]
lr = 1e-2
[train]
global_batch = 8
micro_batch = 2
max_steps = 8
[evaluate]
every = 4
[checkpoint]
every = 4
[run]
dir = "run"
reproducible = true
device = "cpu"
"""


class Job(unittest.TestCase):
    """Each test works in a new folder, self.folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # The bin folder first: `pipeline` is found, as a user has it.
        self.environment = dict(os.environ, VIRTUAL_ENV=os.path.dirname(os.path.dirname(PYTHON)),
                                PATH=os.path.dirname(PIPELINE) + ":" + os.environ["PATH"])

    def configure(self, file, **task):
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in task.items())
        (self.folder / "train.toml").write_text(CONFIG.format(file=file, task=lines))

    def run_words(self, *words, code=0):
        """What the command says, stdout and stderr; it must end with this code."""
        done = subprocess.run(words, cwd=self.folder, env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(done.returncode, code, f"{' '.join(map(str, words))}\n{done.stdout}")
        return done.stdout

    def pipeline(self, verb, *words, code=0, **sets):
        settings = [word for key, value in sets.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
        return self.run_words(PIPELINE, verb, *words, *settings, code=code)

    def losses(self, run="run"):
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        return [line["loss"] for line in map(json.loads, lines) if "loss" in line]

    def checkpoint(self, run="run", step=8):
        """The bytes of all values and states."""
        files = sorted((self.folder / run / f"checkpoints/step-{step:08}").glob("*.safetensors"))
        self.assertTrue(files)
        return b"".join(file.read_bytes() for file in files)


def main():
    if not PYTHON:
        print("skipped: PIPELINE_PYTHON names no Python with torch")
        sys.exit(77)
    unittest.main()
