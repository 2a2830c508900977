"""The verbs on a task in Python, and the ways to start it: pipeline, the file itself, a function call."""
import csv
import json

import job

MODELS = job.ROOT / "tests/python/models.py"
TEMPLATE = job.ROOT / "plugins/template/template.py"


class VerbsTest(job.Job):
    def test_before_a_run(self):
        self.configure(TEMPLATE, width=16)
        self.assertRegex(self.pipeline("check", "train.toml", "-v"), r"\nwidth = 16 +# train.toml:5\n")
        said = self.pipeline("explain", str(TEMPLATE))
        self.assertIn("Learns a sine from noisy samples", said)
        self.assertRegex(said, r"noise +number +0.1 +standard deviation of the noise on y")
        self.assertIn("what torch.compile gets", self.pipeline("explain", f"{MODELS}:Tied"))
        for name in ("Pictures", "Sparse"):  # with BatchNorm in bf16; with gradients of some rows
            self.assertIn("checks passed", self.pipeline("check-plugin", f"{MODELS}:{name}"))
        self.assertIn("pipeline explain my_task.py", self.pipeline("explain", "python"))
        self.assertIn("memory", self.pipeline("plan", "train.toml"))
        # Only the task knows whether it reads the path or writes it, and it may say so.
        (self.folder / "mine.py").write_text(job.BEGIN + "    @dataclass\n    class Options:\n        table: __import__('pathlib').Path\n"
                                             "        def __post_init__(self):\n"
                                             "            if self.table.suffix == '.csv' and not self.table.exists():\n"
                                             "                raise ValueError(f'{self.table}: is not there')\n")
        self.configure("mine.py", table="gone.txt")
        self.assertIn(f'warning: train.toml:5: task.table = "gone.txt": there is nothing at gone.txt: a run whose task reads it '
                      "will fail", self.pipeline("check", "train.toml"))
        self.configure("mine.py", table="gone.csv")
        self.assertIn("gone.csv: is not there", self.pipeline("check", "train.toml", code=2))

    def test_after_a_run(self):
        self.configure(MODELS, **{"class": "Pictures"})
        self.pipeline("run", "train.toml", evaluate__samples=2)
        log = (self.folder / "run/train.log").read_text()
        self.assertRegex(log, r"stripes of kind [01]")
        self.assertRegex(self.pipeline("evaluate", "run", "--split", "val"), r"accuracy +1\.0\d+\n +auc +1\.0\d+\n")
        self.assertRegex(self.pipeline("evaluate", "run", "--split", "val", launch__processes=2), r"accuracy +1\.0\d+\n +auc +1\.0\d+\n")
        self.pipeline("export", "run")
        (self.folder / "mine.py").write_text(f"import sys\nsys.path.insert(0, '{MODELS.parent}')\nimport models\n"
                                             "class Mine(models.Pictures):\n    columns = ('kind',)\n    def export(self, folder): pass\n"
                                             "    def predict(self, batch): return batch[1]\n")
        mine = dict(task__file="mine.py", task__class="Mine")
        self.assertRegex(self.pipeline("export", "run", "--output", "empty", code=1, **mine), r"error: \S*mine.py: export\(\) wrote nothing")
        said = self.pipeline("predict", "run", "--split", "val", "--output", "rows.csv", code=1, **mine)
        self.assertRegex(said, r"error: \S*mine.py: predict\(\) returned the row tensor\(\d\), must return a sequence with 1 value")
        loaded = self.run_words(job.PYTHON, "-c", "import torch; print(sorted(torch.load('run/export/model.pt')))")
        self.assertIn("'1.running_mean'", loaded)

    def test_predictions(self):
        self.configure(TEMPLATE)
        self.pipeline("run", "train.toml")
        self.pipeline("predict", "run", "--output", "rows.csv")
        with open(self.folder / "rows.csv") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 200)
        self.assertEqual(list(rows[0]), ["id", "x", "y"])
        self.assertLessEqual(abs(float(rows[0]["x"])), 3)

    def test_the_file_is_a_program(self):
        self.configure(TEMPLATE)
        path = {"PYTHONPATH": job.PACKAGE}
        self.environment.update(path)
        self.run_words(job.PYTHON, str(TEMPLATE), "run", "train.toml", "--set", "launch.processes=2", "--set",
                       "strategy.plugin=ddp", "--set", "run.dir=two")
        (self.folder / "call.py").write_text(
            "import pipeline\nclass Mine(pipeline.Task):\n"
            "    def dataset(self, split): return [float(i) for i in range(32)]\n"
            "    def build_model(self):\n        import torch\n        return torch.nn.Linear(1, 1)\n"
            "    def loss(self, x): return (self.model(x.float()[:, None])[:, 0] - 2 * x.float()).square().sum()\n"
            "pipeline.run('train.toml', Mine, run__dir='called', optimizer__lr=0.1, train__max_steps=3)\n"
            "try:\n    pipeline.run('train.toml', Mine, run__dir='called', train__max_stepz=3)\n"
            "except RuntimeError as error:\n    print('refused:', error)\n")
        said = self.run_words(job.PYTHON, "call.py")
        self.assertIn("unknown key: did you mean train.max_steps?", said)
        self.assertRegex(said, r"refused: pipeline run .* ended with exit code 2: .*train.max_stepz=3: unknown key")
        self.assertEqual(len(self.losses("called")), 3)
        self.pipeline("run", "train.toml", run__dir="one")
        self.assertEqual(self.losses("one"), self.losses("two"))

    def test_a_new_task(self):
        said = self.pipeline("new", "task", "my_task", "--language", "python")
        self.assertIn("my_task: a task in Python\n  my_task.py\n  my_task.toml\n", said)
        self.folder /= "my_task"
        self.assertIn("26 checks passed", self.pipeline("check-plugin", "my_task.py"))
        self.pipeline("run", "my_task.toml", train__max_steps=20)
        self.assertTrue(json.loads((self.folder / "runs/my_task/summary.json").read_text()))


if __name__ == "__main__":
    job.main()
