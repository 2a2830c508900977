"""What a task does to its process costs the run nothing, and what a run does to a notebook's process is undone."""
import json
import os
import re
import signal
import subprocess
import time

import job

BEGIN = """
import os, sys, threading, torch, pipeline
from torch import nn
class Mine(pipeline.Task):
    def dataset(self, split):
        count = {"train": 16, "val": 4}.get(split)
        return count and torch.utils.data.TensorDataset(torch.randn(count, 4, generator=torch.Generator().manual_seed(count)))
    def build_model(self):
        return nn.Linear(4, 1)
    def loss(self, batch):
        return self.model(batch[0]).square().sum()
"""

# Each method of this task goes to a folder of its own, and so does its import.
ELSEWHERE = BEGIN + """
def go(method):
    def gone(self, *arguments):
        os.makedirs(f"{elsewhere}/{method.__name__}", exist_ok=True)
        os.chdir(f"{elsewhere}/{method.__name__}")
        return method(self, *arguments)
    return gone
def fork():
    if os.fork() == 0:
        sys.exit()
    assert os.wait()[1] == 0
fork()
elsewhere = os.path.join(os.path.dirname(os.path.abspath(__file__)), "elsewhere")
os.makedirs(elsewhere, exist_ok=True)
os.chdir(elsewhere)
class Elsewhere(Mine):
    columns = ("y",)
    def collate(self, samples):  # in a process of loader.processes
        fork()
        return super().collate(samples)
    def predict(self, batch):
        return self.model(batch[0])
    def extra_state(self):
        return b"state"
    def set_extra_state(self, state):
        assert state == b"state"
for name in ("prepare", "open_data", "batch", "weight", "build_model", "loss", "evaluate", "predict", "export", "extra_state", "set_extra_state"):
    setattr(Elsewhere, name, go(getattr(Elsewhere, name)))
"""

DISTURBED = """
class Disturbed(Mine):
    def loss(self, batch):
        print("of the task", flush=True)
        if not self.tried:
            self.tried = [self.forked(end) for end in (lambda: sys.exit(3), lambda: os._exit(4), lambda: 1 / 0)]
            child = os.fork()
            if child == 0:
                return super().loss(batch)
            self.tried.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            assert self.tried == [3, 4, 1, 1], self.tried
        for stream in (0, 1, 2):
            os.close(stream)
        self.log("while they are closed")
        return super().loss(batch)
    tried = ()
    def forked(self, end):
        child = os.fork()
        return end() if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
pipeline.run("train.toml", Disturbed, run__dir="disturbed", train__max_steps=3, evaluate__at_end=False)
"""

NOTEBOOK = """
import pathlib, re, signal, warnings

def state():
    return [torch.get_num_threads(), torch.is_deterministic_algorithms_warn_only_enabled(), torch.are_deterministic_algorithms_enabled(),
            torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic, torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
            torch.get_float32_matmul_precision(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state().tolist(), os.getcwd(),
            torch.backends.cuda.cudnn_sdp_enabled(), signal.getsignal(signal.SIGINT), warnings.filters[:], os.environ.copy()]

class Changes(Mine):
    def loss(self, batch):
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        warnings.simplefilter("ignore")
        torch.set_num_threads(7)
        os.chdir("/")
        if self.step == 3 and not self.training:
            raise ValueError("of the evaluation")
        return super().loss(batch).float()

class Compiles(Mine):
    def loss(self, batch):
        inductor.append("torch._inductor.config" in sys.modules)
        import torch._inductor.config
        inductor.append(torch._inductor.config.deterministic)
        return super().loss(batch)
inductor = []
pipeline.run("train.toml", Compiles, run__dir="compiles", train__max_steps=1, evaluate__at_end=False)
assert inductor[:2] == [False, True] and not torch._inductor.config.deterministic, inductor
assert "TORCHINDUCTOR_DETERMINISTIC" not in os.environ

torch.set_num_threads(2)
torch.use_deterministic_algorithms(True, warn_only=True)
torch.set_grad_enabled(False)
torch.manual_seed(11)
before = state()
result = pipeline.run("train.toml", Changes)
assert state() == before, [pair for pair in zip(state(), before) if pair[0] != pair[1]]
run = pathlib.Path("run").absolute()
assert (result.folder, result.step, result.last) == (run, 8, run / "checkpoints/step-00000008"), result
assert result.best in result.folder.glob("checkpoints/*") and result.figures.keys() == {"loss"} and result.loss > 0, result
assert "step    8, loss " in repr(result) and str(result.last) in repr(result), result
try:
    pipeline.run("train.toml", Changes, run__dir="failed", evaluate__every=3)
except RuntimeError as error:
    assert "of the evaluation" in str(error)
else:
    raise AssertionError("no error")
assert state() == before

def refused(self, batch):
    for start in (inside, beside):
        start()
    return Mine.loss(self, batch)
def inside():
    try:
        pipeline.run("train.toml", Mine, run__dir="inside")
    except RuntimeError as error:
        told.append(str(error))
def beside():
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
told = []
pipeline.run("train.toml", type("Starts", (Mine,), {"loss": refused}), run__dir="outside", train__max_steps=1, evaluate__at_end=False)
expected = "pipeline run train.toml --set run.dir=inside: pipeline run train.toml --set run.dir=outside .* is not over in this process"
assert len(told) == 8 and all(re.match(expected, line) for line in told), told  # twice for each micro-batch
assert not os.path.exists("inside")

def interrupted(self, batch):
    if not signalled:
        signalled.append(os.kill(os.getpid(), signal.SIGINT))
    return Mine.loss(self, batch)
signalled = []
try:
    pipeline.run("train.toml", type("Stops", (Mine,), {"loss": interrupted}), run__dir="stopped")
except RuntimeError as error:
    assert "ended with exit code 75" in str(error), error
try:
    os.kill(os.getpid(), signal.SIGINT)
    signal.sigtimedwait([], 1)
    raise AssertionError("Ctrl-C does nothing after a run that it has stopped")
except KeyboardInterrupt:
    pass

# A figure that is no number is a word in JSON, and a float here.
report = lambda self, values, records: {"area": float("nan")}
result = pipeline.run("train.toml", type("NoNumber", (Mine,), {"report": report}), run__dir="nan", train__max_steps=1)
assert result.figures["area"] != result.figures["area"] and "area nan" in repr(result), result

# What a task is told of a step with accumulation, of the evaluation after it, and of a run that goes on.
steps = []
def step(self, batch):
    steps.append((self.step, self.training))
    return Mine.loss(self, batch)
Steps = type("Steps", (Mine,), {"loss": step})
for last in (2, 3):
    pipeline.run("train.toml", Steps, run__dir="steps", train__max_steps=last, evaluate__every=2, evaluate__at_end=False, schedule__kind="constant")
assert steps == [(1, True)] * 4 + [(2, True)] * 4 + [(2, False)] * 2 + [(3, True)] * 4, steps

pathlib.Path("stages.toml").write_text(pathlib.Path("train.toml").read_text() + '''
[[stage]]
name = "first"
[[stage]]
name = "second"
init_from = "first"
kind = "evaluate"
evaluate.split = "val"
''')
result = pipeline.run("stages.toml", Steps, run__dir="staged", train__max_steps=2)
assert list(result.stages) == ["first", "second"] and result is result.stages["first"], result
assert result.stages["second"].figures["loss"] == result.figures["loss"] and result.stages["second"].folder == pathlib.Path("staged/second").absolute()
assert steps[-2:] == [(2, False)] * 2, steps[-2:]
print("all as it was")
"""

# A task that hears nothing: in a call that keeps the interpreter's lock, in one that does not, and while it is imported.
DEAF = """
import ctypes, os, time
def be_deaf(name, wait):
    if os.environ["DEAF"] == name:
        open(f"deaf-{name}", "w").close()
        wait(1000)
be_deaf("check", ctypes.PyDLL(None).sleep)
""" + BEGIN + """
class Deaf(Mine):
    def loss(self, batch):
        be_deaf("run", ctypes.PyDLL(None).sleep)
        be_deaf("script", time.sleep)
        return super().loss(batch)
"""

HABITS = """
from pipeline.habits import uncalled
class Habits(Mine):
    learning_rate = 3
    callbacks = ()
    def configure_optimizers(self): pass
    def training_step(self, batch, number): pass
    def train_dataloader(self): pass
    def on_train_epoch_end(self): pass
    def compute_metrics(self, batch): pass
    def evalute(self, batch): pass
    def forward(self, x): return self.model(x)
    def _setup(self): pass
    def helper(self): return self.sampler
    @property
    def sampler(self): return lambda: self.setup()
    def setup(self): pass
    def loss(self, batch): return [self.forward(x) for x in batch]
class ByName(Habits):
    def dataset(self, split): return getattr(self, f"{split}_dataset")()
    def train_dataset(self): pass
assert not list(uncalled(ByName))
for line in uncalled(Habits):
    print(line)
"""


class ProcessTest(job.Job):
    def test_a_changed_folder_takes_no_file_elsewhere(self):
        (self.folder / "mine.py").write_text(ELSEWHERE)
        self.configure("mine.py", **{"class": "Elsewhere"})
        self.assertIn("done: run\n", self.pipeline("run", "train.toml", loader__processes=1))
        self.pipeline("predict", "run", "--split", "val", "--checkpoint", "run/checkpoints/step-00000004", "--output", "rows.csv")
        for file in ("run/summary.json", "run/checkpoints/step-00000008", "rows.csv"):
            self.assertTrue((self.folder / file).exists(), file)
        self.assertEqual([name for _, _, names in os.walk(self.folder / "elsewhere") for name in names], [])

    def test_a_notebook_has_its_process_back(self):
        (self.folder / "mine.py").write_text(BEGIN + DISTURBED + NOTEBOOK + HABITS)
        self.configure("mine.py")
        self.environment["PYTHONPATH"] = job.PACKAGE
        said = self.run_words(job.PYTHON, "mine.py")
        self.assertIn("all as it was", said)
        for line in ("of the task", "while they are closed", "mine.py: a process that a method has forked returned from it", "ZeroDivisionError"):
            self.assertIn(line, said)
        steps = [json.loads(line)["step"] for line in (self.folder / "disturbed/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(steps, [1, 2, 3])

        lines = re.findall(r"^nothing (calls|reads) Habits\.(\w+): (.*)$", said, re.MULTILINE)
        told = {name: text for _, name, text in lines}
        self.assertEqual([name for verb, name, _ in lines if verb == "reads"], ["callbacks", "learning_rate"])
        self.assertEqual(sorted(told), ["callbacks", "compute_metrics", "configure_optimizers", "evalute", "learning_rate", "on_train_epoch_end",
                                        "train_dataloader", "training_step"])
        self.assertEqual(told["evalute"], "did you mean evaluate?")
        self.assertIn("pipeline has in its place loss(batch)", told["training_step"])
        self.assertIn("[optimizer] and [schedule]", told["configure_optimizers"])

    def test_a_stop_while_torch_is_imported_shows_no_traceback(self):
        (self.folder / "numpy.py").write_text("import time\nopen('importing', 'w').close()\ntime.sleep(60)\n")  # torch imports it
        self.configure("mine.py")
        process = subprocess.Popen([job.PIPELINE, "check", "train.toml"], cwd=self.folder, env=dict(self.environment, PYTHONPATH=self.folder),
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while not (self.folder / "importing").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
        self.assertEqual((process.returncode, said), (-signal.SIGINT, ""))

    def test_a_stop_is_heard_whatever_a_method_does(self):
        (self.folder / "deaf.py").write_text(DEAF)
        (self.folder / "script.py").write_text("import deaf, pipeline\npipeline.run('train.toml', deaf.Deaf, run__dir='script')\n")
        self.configure("deaf.py", **{"class": "Deaf"})
        self.environment["PYTHONPATH"] = job.PACKAGE
        # One signal for each way to be deaf; the last one is handled by nothing any more.
        cases = [("run", signal.SIGINT, 75, "SIGINT: stopped at once", [job.PIPELINE, "run", "train.toml"]),
                 ("script", signal.SIGTERM, 75, "SIGTERM: stopped at once", [job.PYTHON, "script.py"]),
                 ("check", signal.SIGINT, -signal.SIGINT, "", [job.PIPELINE, "check", "train.toml"])]
        processes = [subprocess.Popen(words, cwd=self.folder, env=dict(self.environment, DEAF=name), text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                     for name, _, _, _, words in cases]  # SIGINT: a shell's jobs in the background ignore it
        for process in processes:
            self.addCleanup(process.kill)
        for name, *_ in cases:
            deadline = time.monotonic() + 120
            while not (self.folder / f"deaf-{name}").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        begin = time.monotonic()
        for process, (_, number, *_) in zip(processes, cases):
            process.send_signal(number)
        for process, (name, _, code, expected, _) in zip(processes, cases):
            with self.subTest(name):
                said = process.communicate(timeout=60)[0]
                self.assertEqual(process.returncode, code, said)
                self.assertIn(expected, said)
                self.assertLess(time.monotonic() - begin, 5)


if __name__ == "__main__":
    job.main()
