"""Milliseconds a step of a task in Python, and of the same step in a plain PyTorch loop, in turns. See python_overhead.

A turn trains twice, for few and for many steps: the difference is the steps' own time, without starting.
"""
import argparse
import os
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["VIRTUAL_ENV"] = sys.prefix
    for kind, name, steps in (("sine", "the sine, 4 tensors", 3000), ("deep", "1,000 tensors of one number", 100)):
        with tempfile.TemporaryDirectory() as folder:
            for file, text in (("task.py", TASK), ("loop.py", LOOP), ("train.toml", CONFIG)):
                with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                    out.write(text.replace("KIND", kind))
            def ours(count):
                return seconds([arguments.pipeline, "run", "train.toml", "--fresh", "--set", f"train.max_steps={count}"], folder)
            def loop(count):
                return seconds([sys.executable, "loop.py", str(count)], folder)
            times = {ours: [], loop: []}
            for _ in range(arguments.rounds):
                for each, found in times.items():
                    few = each(steps // 10)
                    found.append((each(steps) - few) / (steps - steps // 10) * 1000)
            mine, plain = (statistics.median(found) for found in times.values())
            print(f"{name}: {mine:.2f} ms a step, a plain loop {plain:.2f} ms: {mine - plain:+.2f} ms")


if __name__ == "__main__":
    main()
