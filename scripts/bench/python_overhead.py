"""Milliseconds a step of a task in Python, and of the same step in a plain PyTorch loop, in turns. See python_overhead.

A turn trains twice, for few and for many steps: the difference is the steps' own time, without starting.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MODEL = """
import sys, torch
from torch import nn
torch.set_num_threads(1)
def make_model(kind):
    if kind == "sine":
        return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    return nn.Sequential(*[nn.Linear(1, 1) for _ in range(500)])  # a thousand parameters
x = torch.rand(64, 1) * 6 - 3
y = torch.sin(x)
"""
TASK = MODEL + """
import pipeline
class Cached(pipeline.Task):
    def sample_count(self, split): return 6400 if split == "train" else 0
    def batch(self, split, ids, epoch): return x, y
    def build_model(self): return make_model("KIND")
    def loss(self, batch): return (self.model(batch[0]) - batch[1]).square().sum()
"""
LOOP = MODEL + """
model = make_model("KIND")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for step in range(int(sys.argv[1])):
    loss = (model(x) - y).square().sum() / 64
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""
SLOW_DATA = """
import torch, pipeline
from torch import nn
class SlowData(pipeline.Task):
    def sample_count(self, split): return 100000 if split == "train" else 0
    def batch(self, split, ids, epoch):
        if BUSY:
            for id in ids:  # a millisecond or so of Python for each sample, as an augmentation that is written in it takes
                sum(i * i for i in range(20000))
        return torch.ones(len(ids), 256)
    def build_model(self): return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.Tanh())])
    def loss(self, batch):
        for _ in range(REPEATS): x = self.model(batch)
        return x.square().sum()
"""
COMPILED = """
import torch, pipeline
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256)
    def forward(self, x): return x + self.down(nn.functional.gelu(self.up(self.norm(x)), approximate="tanh"))
class Compiled(pipeline.Task):
    def sample_count(self, split): return 100000 if split == "train" else 0
    def batch(self, split, ids, epoch): return torch.ones(len(ids), 32, 256)
    def build_model(self):
        model = nn.Sequential(nn.ModuleList(Block() for _ in range(6)))
        model.forward = lambda x: [x := block(x) for block in model[0]][-1]
        if "KIND" == "layers":
            for block in model[0]: block.compile()
        return torch.compile(model) if "KIND" == "model" else model
    def loss(self, batch): return self.model(batch).square().sum()
"""
CONFIG = """
[task]
plugin = "python"
file = "task.py"
[strategy]
plugin = "single"
[optimizer]
lr = 1e-3
[train]
global_batch = 64
micro_batch = 64
max_steps = 1
[checkpoint]
every = 1000000
[launch]
threads = 1
[run]
device = "cpu"
dir = "run"
"""


def seconds(words, folder):
    begin = time.perf_counter()
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def milliseconds(contestants, folder, steps, rounds):
    """The median of each: contestants are functions from a number of steps to a command line."""
    times = [[] for _ in contestants]
    for _ in range(rounds):
        for command, found in zip(contestants, times):
            few = seconds(command(steps // 10), folder)
            found.append((seconds(command(steps), folder) - few) / (steps - steps // 10) * 1000)
    return [statistics.median(found) for found in times]


def written(folder, **texts):
    for name, text in texts.items():
        with open(os.path.join(folder, name.replace("__", ".")), "w", encoding="utf-8") as out:
            out.write(text)


def overhead(pipeline, rounds):
    for kind, name, steps in (("sine", "the sine, 4 tensors", 3000), ("deep", "1,000 tensors of one number", 100)):
        with tempfile.TemporaryDirectory() as folder:
            written(folder, task__py=TASK.replace("KIND", kind), loop__py=LOOP.replace("KIND", kind), train__toml=CONFIG)
            mine, plain = milliseconds([lambda n: [*pipeline, "--set", f"train.max_steps={n}"],
                                        lambda n: [sys.executable, "loop.py", str(n)]], folder, steps, rounds)
            print(f"{name}: {mine:.2f} ms a step, a plain loop {plain:.2f} ms: {mine - plain:+.2f} ms")


def slow_data(pipeline, rounds):
    with tempfile.TemporaryDirectory() as folder:
        made = SLOW_DATA.replace("REPEATS", "20")
        written(folder, task__py=made.replace("BUSY", "True"), idle__py=made.replace("BUSY", "False"), train__toml=CONFIG)

        def kind(*settings):
            return lambda n: [*pipeline, "--set", f"train.max_steps={n}", *(word for setting in settings for word in ("--set", setting))]
        idle, threads, processes = milliseconds([kind("task.file=idle.py"), kind(), kind("loader.processes=1")], folder, 40, rounds)
        print(f"batches of 64 samples that take a millisecond of Python each: {threads:.0f} ms a step with threads, {processes:.0f} ms with "
              f"loader.processes = 1, {idle:.0f} ms if batches took no time")


def compiled(pipeline, rounds):
    """What torch.compile takes before the first step, with its cache empty and filled, and gives from then on."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = ("nothing", "layers", "model")
        written(folder, train__toml=CONFIG, **{f"{kind}__py": COMPILED.replace("KIND", kind) for kind in kinds})
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "cache")

        def run(kind):
            return lambda n: [*pipeline, "--set", f"train.max_steps={n}", "--set", f"task.file={kind}.py"]
        for kind in kinds[1:]:
            shutil.rmtree(os.environ["TORCHINDUCTOR_CACHE_DIR"], ignore_errors=True)
            plain, cold, warm = (seconds(run(which)(1), folder) for which in ("nothing", kind, kind))
            print(f"torch.compile of {kind}: the first step comes {cold - plain:.1f} s later, {warm - plain:.1f} s with a filled cache")
        times = milliseconds([run(kind) for kind in kinds], folder, 20, min(rounds, 3))
        print(f"a step: {times[0]:.0f} ms, {times[1]:.0f} ms with compiled layers, {times[2]:.0f} ms with a compiled model")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["VIRTUAL_ENV"] = sys.prefix
    pipeline = [arguments.pipeline, "run", "train.toml", "--fresh"]
    overhead(pipeline, arguments.rounds)
    slow_data(pipeline, arguments.rounds)
    compiled(pipeline, arguments.rounds)


if __name__ == "__main__":
    main()
