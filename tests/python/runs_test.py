"""Runs of tasks in Python have the bits of the same task in C++, under every strategy, and after a kill."""
import json
import os
import re
import signal
import subprocess
import time

import job

MODELS = job.ROOT / "tests/python/models.py"

# A task, and as a program the differences of exported weights from those of torch.optim after the same three steps.
SMALL = """
import sys
import torch
from torch import nn

def data():
    random = torch.Generator().manual_seed(1)
    return torch.randn(24, 6, generator=random), torch.randn(24, 3, generator=random)

def make_model():
    torch.manual_seed(2)
    return nn.ModuleDict({"first": nn.Linear(6, 8), "layers": nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 8)]), "head": nn.Linear(8, 3)})

def loss_of(model, x, y):
    x = model["first"](x)
    for layer in model["layers"]:
        x = layer(x).tanh()
    return (model["head"](x) - y).square().sum()

if __name__ == "__main__":
    model = make_model()
    hidden = [p for p in model["layers"].parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if not any(p is h for h in hidden)]
    groups = [{"params": [p for p in rest if p.dim() == 2], "weight_decay": 0.1}, {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0}]
    optimizers = [torch.optim.Muon(hidden, lr=1e-2, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"), torch.optim.AdamW(groups, lr=1e-2)]
    x, y = data()
    for step in range(3):
        part = slice(8 * step, 8 * step + 8)
        (loss_of(model, x[part], y[part]) / 8).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    theirs = dict(model.named_parameters())
    for folder in sys.argv[1:]:
        ours = torch.load(folder + "/model.pt")
        assert ours.keys() == theirs.keys()
        print(max((ours[name] - theirs[name]).abs().max().item() for name in ours))
else:
    import pipeline

    class Small(pipeline.Task):
        def dataset(self, split):
            return torch.utils.data.TensorDataset(*data()) if split == "train" else None
        def build_model(self):
            return make_model()
        def layers(self, model):
            return []
        def describe_parameter(self, parameter):
            parameter.hidden_matrix = parameter.name.startswith("layers.") and len(parameter.shape) == 2
        def loss(self, batch):
            return loss_of(self.model, *batch)
"""


class RunsTest(job.Job):
    def assert_alike(self, *strategies, **sets):
        """Two processes with each of these strategies have the losses of one process, to the bit."""
        self.pipeline("run", "train.toml", run__dir="alone", **sets)
        self.assertEqual(len(self.losses("alone")), 8)
        for strategy in strategies:
            plugin, _, stage = strategy.partition(":")
            more = {"strategy__zero_stage": stage} if stage else {}
            self.pipeline("run", "train.toml", run__dir=strategy, launch__processes=2, strategy__plugin=plugin, **more, **sets)
            self.assertEqual(self.losses("alone"), self.losses(strategy), strategy)

    def test_the_template_has_the_bits_of_the_one_in_cpp(self):
        self.configure(job.ROOT / "plugins/template/template.py")
        self.pipeline("run", "train.toml")
        in_python = self.losses(), self.checkpoint()
        (self.folder / "train.toml").write_text(
            (self.folder / "train.toml").read_text().replace('"python"', '"template"').replace("file =", "# file ="))
        self.pipeline("run", "train.toml", run__dir="cpp")
        self.assertEqual(in_python[0], self.losses("cpp"))
        self.assertTrue(in_python[1] == self.checkpoint("cpp"), "the checkpoints differ")

    def test_shared_weights_and_layers(self):
        self.configure(MODELS, **{"class": "Tied"})
        self.assert_alike("ddp", "sharded:2", "sharded:3")

    def test_recomputed_layers_have_the_same_bits_under_stage_3(self):
        self.configure(MODELS, **{"class": "Tied", "frozen": "blocks.1"})
        self.pipeline("run", "train.toml", run__dir="kept")
        self.pipeline("run", "train.toml", run__dir="recomputed", train__activation_checkpointing="true",
                      strategy__plugin="sharded", strategy__zero_stage=3, launch__processes=2)
        self.assertEqual(self.losses("kept"), self.losses("recomputed"))

    def test_muon_is_torchs(self):
        (self.folder / "small.py").write_text(SMALL)
        self.configure("small.py")
        sets = dict(optimizer__kind="muon", optimizer__weight_decay=0.1, schedule__kind="constant", loader__shuffle="false",
                    train__clip_grad_norm=0.0, train__max_steps=3, evaluate__every=0)
        for name, more in {"one": {}, "two": dict(strategy__plugin="sharded", strategy__zero_stage=2, launch__processes=2)}.items():
            self.pipeline("run", "train.toml", run__dir=name, **sets, **more)
            self.pipeline("export", "train.toml", "--checkpoint", "last", "--output", f"{name}.out", run__dir=name, **sets, **more)
        differences = self.run_words(job.PYTHON, "small.py", "one.out", "two.out").split()
        self.assertEqual(len(differences), 2)
        for difference in differences:
            self.assertLessEqual(float(difference), 1e-6)

    def test_unused_weights_and_dropout(self):
        self.configure(MODELS, **{"class": "Recurrent"})
        self.assert_alike("sharded:1", "sharded:3")

    def test_an_error_in_the_last_evaluation_loses_nothing(self):
        begin = f"import sys\nsys.path.insert(0, '{job.ROOT}/plugins/template')\nfrom template import Template\nclass Mine(Template):\n"
        cases = {"show": ("def show(self, batch): return [1 / (1 - self._context.info.rank)] * 2", "ZeroDivisionError"),  # on one rank alone
                 "report": ("def report(self, values, records): raise ValueError('of the report')", "ValueError: of the report")}
        for slot, (method, message) in cases.items():
            with self.subTest(slot):
                (self.folder / "mine.py").write_text(f"{begin}    {method}\n")
                self.configure("mine.py")
                settings = dict(run__dir=slot, launch__processes=2, strategy__plugin="sharded", strategy__zero_stage=3, evaluate__every=0,
                                checkpoint__every=0, evaluate__samples=100)
                said = self.pipeline("run", "train.toml", code=1, **settings)
                # The launcher names the rank that ended first; rank 0 may have said its own error before. No rank
                # says that it lost another.
                errors = [line for line in said.splitlines() if line.startswith("error: ")]
                launchers = [line for line in errors if re.match(r"error: rank \d on host", line)]
                self.assertEqual(len(launchers), 1, said)
                for line in set(errors) - set(launchers):
                    self.assertIn(message, line)
                self.assertIn(message, said)
                self.assertEqual(len(self.losses(slot)), 8)
                self.assertTrue(self.checkpoint(slot))
                (self.folder / "mine.py").write_text(begin + "    pass\n")
                self.assertIn("evaluation after step 8", self.pipeline("run", "train.toml", **settings))

    def test_sparse_gradients(self):
        self.configure(MODELS, **{"class": "Sparse"})
        self.assert_alike("ddp", "sharded:3")

    def test_compiled_layers_under_stage_3(self):
        self.configure(MODELS, **{"class": "Tied", "compile": "layers"})
        self.pipeline("run", "train.toml", run__dir="alone")
        self.pipeline("run", "train.toml", run__dir="sharded", strategy__plugin="sharded", strategy__zero_stage=3, launch__processes=2)
        self.assertEqual(self.losses("alone"), self.losses("sharded"))

    def test_a_compiled_model_has_the_parameters_of_the_model(self):
        self.configure(MODELS, **{"class": "Tied", "compile": "model"})
        self.pipeline("run", "train.toml", run__dir="compiled")
        said = self.pipeline("evaluate", "compiled", "--split", "val", task__compile="nothing")
        self.assertRegex(said, r"loss +\S+")
        for compiled, plain in zip(self.losses("compiled"), self.plain_losses(), strict=True):
            self.assertAlmostEqual(compiled, plain, delta=1e-5)

    def plain_losses(self):
        self.pipeline("run", "train.toml", run__dir="plain", task__compile="nothing")
        return self.losses("plain")

    def test_running_statistics_survive_a_kill(self):
        self.configure(MODELS, **{"class": "Pictures"})
        self.pipeline("run", "train.toml", run__dir="whole")
        slow = {"train.max_steps": 8, "run.dir": "killed", "observe.log_every": 1}
        words = [job.PIPELINE, "run", "train.toml"] + [w for k, v in slow.items() for w in ("--set", f"{k}={v}")]
        process = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL)
        folder = self.folder / "killed/checkpoints/step-00000004/manifest.json"
        deadline = time.monotonic() + 60
        while not folder.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.assertTrue(folder.exists())
        last = self.folder / "killed/checkpoints/step-00000008"
        if last.exists():  # it was quicker than the signal
            self.run_words("rm", "-r", str(last), "killed/summary.json")
        self.pipeline("run", "killed")
        self.assertEqual(self.losses("whole"), self.losses("killed"))
        self.assertTrue(self.checkpoint("whole") == self.checkpoint("killed"), "the checkpoints differ")

    def test_a_checkpoint_has_the_running_statistics_that_the_run_evaluated_with(self):
        for name in ("Pictures", "Averaged"):
            with self.subTest(name):
                self.configure(MODELS, **{"class": name})
                self.pipeline("run", "train.toml", run__dir=name)
                last = json.loads((self.folder / name / "eval.jsonl").read_text().splitlines()[-1])
                self.pipeline("evaluate", name, "--split", "val")
                again = json.loads((self.folder / name / "evaluation-val.json").read_text())
                self.assertEqual(last["loss"], again["figures"]["loss"])

    def test_running_statistics_that_would_differ_are_refused(self):
        for name, buffer in (("Averaged", "2.mean"), ("Pictures", "1.running_mean")):
            self.configure(MODELS, **{"class": name})
            said = self.pipeline("run", "train.toml", code=2, launch__processes=2, strategy__plugin="ddp")
            self.assertIn(f"error: training changes the buffer {buffer}, which would differ between the processes", said)
        self.assert_alike("ddp", task__norm="group")

    def test_what_is_in_eval_stays_there(self):
        self.configure(MODELS, **{"class": "Pictures", "norm": "frozen"})
        self.assert_alike("ddp")

    def test_narrow_computation_follows_the_wide_one(self):
        # A logit is about 16, which bfloat16 rounds by up to 0.06, and these losses are about exp(-logit): 6%.
        self.configure(MODELS, **{"class": "Tied"})
        self.pipeline("run", "train.toml", run__dir="wide")
        self.pipeline("run", "train.toml", run__dir="narrow", train__precision="bf16")
        for narrow, wide in zip(self.losses("narrow")[:4], self.losses("wide")[:4], strict=True):
            self.assertAlmostEqual(narrow, wide, delta=0.06 * wide)


if __name__ == "__main__":
    job.main()
