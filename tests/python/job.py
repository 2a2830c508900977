"""What the tests of tasks in Python share: a folder with a configuration, and the program run in it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import warm

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


# A task that others derive from: their lines follow.
BEGIN = """
import pipeline, sys, threading, time, torch
from dataclasses import dataclass
from torch import nn
class Mine(pipeline.Task):
    def dataset(self, split):
        return {"train": torch.randn(16, 4), "val": torch.randn(4, 4)}.get(split)
    def build_model(self):
        return nn.Linear(4, 1)
    def loss(self, batch):
        return self.model(batch).square().sum()
"""

# Runs the class Mine of several files, one after another in one process, which imports torch once.
IN_TURN = """
import importlib, sys
sys.path[:0] = [".", sys.argv[1]]
import pipeline
for name in sys.argv[2:]:
    print("case", name, flush=True)
    try:
        pipeline.run("train.toml", importlib.import_module(name).Mine, run__dir=name)
    except RuntimeError:
        pass
"""


class Job(unittest.TestCase):
    """Each test works in a new folder, self.folder."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.warm_python, end = warm.client(PYTHON, folder.name)
        cls.addClassCleanup(end)

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

    def run_words(self, *words, code=0, **variables):
        """What the command says, stdout and stderr; it must end with this code."""
        done = subprocess.run(words, cwd=self.folder, env=dict(self.environment, **variables), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(done.returncode, code, f"{' '.join(map(str, words))}\n{done.stdout}")
        return done.stdout

    def pipeline(self, verb, *words, code=0, **sets):
        settings = [word for key, value in sets.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
        alone = {} if "launch__processes" in sets else {"PIPELINE_PYTHON": self.warm_python}
        return self.run_words(PIPELINE, verb, *words, *settings, code=code, **alone)

    def said_in_turn(self, cases):
        """cases: {name: lines that follow BEGIN}. What the run of each says, in the folder of its name."""
        self.configure("case.py")
        for name, lines in cases.items():
            (self.folder / f"{name}.py").write_text(BEGIN + lines)
        said = self.run_words(PYTHON, "-c", IN_TURN, PACKAGE, *cases)
        return {part.split("\n", 1)[0]: part for part in said.split("case ")[1:]}

    def assert_errors(self, cases):
        """cases: {name: (lines, message)}: each run has one error, with this message."""
        parts = self.said_in_turn({name: lines for name, (lines, _) in cases.items()})
        for name, (_, message) in cases.items():
            with self.subTest(name):
                errors = [line for line in parts[name].splitlines() if line.startswith("error: ")]
                self.assertEqual(len(errors), 1, parts[name])
                self.assertRegex(errors[0], message)

    def losses(self, run="run"):
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        losses = [line["loss"] for line in map(json.loads, lines) if "loss" in line]
        self.assertTrue(losses, run)
        return losses

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
