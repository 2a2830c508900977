"""loader.processes: other processes make the batches, with the same bits; what fails there is told here."""
import job

TASK = """
import os, pipeline, signal, torch
from dataclasses import dataclass
from torch import nn

class Mine(pipeline.Task):
    @dataclass
    class Options:
        fault: str = "none"

    def open_data(self):
        self.scale = 0.5

    def sample_count(self, split):
        return {"train": 64, "val": 16}.get(split, 0)

    def batch(self, split, ids, epoch):
        if 17 in ids and self.options.fault == "raise":
            raise ValueError("no such picture")
        if 17 in ids and self.options.fault == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.options.fault == "lambda":
            return lambda: 1
        if self.options.fault == "log":
            self.log(f"process {os.getpid()}")
        x = torch.stack([torch.rand(3, generator=self.generator("x", epoch, i)) for i in ids])
        return {"x": x.T, "names": [str(i) for i in ids], "nothing": torch.empty(0, 2),
                "ones": torch.ones(1, 1).expand(3, len(ids)), "y": (x.sum(1) * self.scale).bfloat16()}

    def build_model(self):
        return nn.Linear(3, 1)

    def loss(self, batch):
        assert batch["nothing"].shape == (0, 2) and len(batch["names"]) == batch["x"].shape[1]
        return (self.model((batch["x"] * batch["ones"]).T)[:, 0] - batch["y"].float()).square().sum()
"""


class LoadingTest(job.Job):
    def setUp(self):
        super().setUp()
        (self.folder / "mine.py").write_text(TASK)

    def run_in_processes(self, fault="none", code=0, **sets):
        self.configure("mine.py", fault=fault)
        return self.pipeline("run", "train.toml", code=code, **{"loader__processes": 2, **sets})

    def test_the_bits_are_those_of_threads(self):
        self.run_in_processes(run__dir="threads", loader__processes=0)
        self.run_in_processes(run__dir="processes")
        self.run_in_processes(run__dir="ranks", launch__processes=2, strategy__plugin="ddp", loader__workers=0)
        self.assertEqual(len(self.losses("threads")), 8)
        for name in ("processes", "ranks"):
            self.assertEqual(self.losses("threads"), self.losses(name))
            self.assertTrue(self.checkpoint("threads") == self.checkpoint(name), name)

    def test_what_they_log_is_in_the_log(self):
        said = self.run_in_processes("log")
        processes = {line.split("process ")[1] for line in said.splitlines() if "process " in line}
        self.assertEqual(len(processes), 2, said)

    def test_an_exception_names_the_samples(self):
        said = self.run_in_processes("raise", code=1)
        self.assertRegex(said, r"error: \S*mine.py:19: ValueError: no such picture\n")
        self.assertIn("in batch", said)
        self.assertRegex(said, r"in a process of loader.processes, which makes a batch of samples [\d, ]*\b17\b[\d, ]* of split train, epoch 0")

    def test_what_cannot_be_handed_over(self):
        self.assertRegex(self.run_in_processes("lambda", code=1), "error: \\S*mine.py: loader.processes: batch.. returned what cannot be handed over "
                                                                  "to another process: Can't pickle")

    def test_a_killed_process_names_the_samples(self):
        said = self.run_in_processes("die", code=1)
        self.assertRegex(said, r"a process of loader.processes was killed by SIGKILL, often by the kernel's out-of-memory killer, "
                               r"while it made a batch of samples [\d, ]*\b17\b[\d, ]* of split train, epoch 0")

    def test_only_python_has_them(self):
        self.configure("mine.py")
        path = self.folder / "train.toml"
        path.write_text(path.read_text().replace('"python"', '"template"').replace("file =", "# file ="))
        self.assertIn("loader.processes = 2 has no effect: task template makes its batches in threads: loader.workers",
                      self.pipeline("run", "train.toml", loader__processes=2))

    def test_a_class_of_a_notebook_cannot_be_loaded(self):
        self.configure("mine.py")
        path = self.folder / "train.toml"
        path.write_text(path.read_text().replace("file =", "# file ="))
        cell = "import sys; sys.path.insert(0, %r)\n%s\nfor key in ('loader.processes', 'launch.processes'):\n" % (
            job.PACKAGE, TASK)
        cell += "    try: pipeline.run('train.toml', Mine, **{key: 2})\n    except RuntimeError as error: print('refused', key)\n"
        said = self.run_words(job.PYTHON, "-c", cell)
        self.assertEqual(said.count("refused"), 2, said)
        self.assertIn("loader.processes = 2: other processes cannot load a class that is only in a notebook: move it to a file", said)
        self.assertIn("other processes of the run cannot load a class that is only in a notebook: move it to a file", said)


if __name__ == "__main__":
    job.main()
