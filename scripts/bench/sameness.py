"""What run.reproducible costs, job by job; see scripts/bench/sameness. How turns are taken: side_by_side.py."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from side_by_side import Pipeline, take_turns_all

ROOT = Path(__file__).resolve().parents[2]
LORA = ["task.language.lora.rank=8", "task.language.lora.targets=all-linear"]
# A configuration, and what is set beside it. Steps of several micro-batches, whose gradients are added in a fixed order.
JOBS = {
    "summarization": ("summarization", []),
    "summarization, Muon": ("summarization", ["optimizer.kind=muon"]),
    "conversations": ("chat", []),
    "conversations, LoRA": ("chat", LORA),
    "pictures and texts": ("vlm", ["stage.pretrain.train.max_steps={steps}", "stage.sft.train.max_steps=1"]),
    "contrastive": ("contrastive", []),
    "proteins": ("protein", []),
}
QUIET = ["run.device=cpu", "evaluate.every=0", "evaluate.at_end=false", "checkpoint.every=0", "checkpoint.on_full_disk=continue"]


def command(arguments, job, run, threads, reproducible, steps):
    config, more = JOBS[job]
    settings = [f"run.dir={run}", f"launch.threads={threads}", f"run.reproducible={str(reproducible).lower()}", "run.cache_dir=cache",
                *QUIET, *(setting.format(steps=steps) for setting in more)]
    if "stage" not in "".join(more):
        settings.append(f"train.max_steps={steps}")
    return [arguments.pipeline, "run", str(ROOT / f"configs/{config}.toml"), *(word for s in settings for word in ("--set", s))]


def price(folder, job, arguments):
    """Both in turns: how much longer a step takes where it has the same bits."""
    steps = (arguments.turns + 1) * arguments.steps + 8
    starts = [partial(start, folder, job, arguments, reproducible, steps) for reproducible in (False, True)]
    fast, same = take_turns_all(starts, arguments.turns, arguments.steps, before=2)
    ratios = [b / a for a, b in zip(fast.seconds, same.seconds)]
    print(f"{job:24} {statistics.median(fast.seconds) / arguments.steps:8.3f} {statistics.median(same.seconds) / arguments.steps:8.3f} "
          f"{statistics.median(ratios):6.2f} {(same.peak - fast.peak) / 2**20:+8.0f}", end="", flush=True)


def start(folder, job, arguments, reproducible, steps):
    run = f"{job}-{reproducible}".replace(" ", "").replace(",", "-")
    one = Pipeline(folder, command(arguments, job, run, arguments.threads, reproducible, steps), run)
    if "stage" in "".join(JOBS[job][1]):
        one.metrics = folder / run / "pretrain" / "metrics.jsonl"
    return one


def bits(folder, job, arguments, threads, **environment):
    """Losses and norms of a few steps, as written."""
    run = f"{job}-{threads}{'-'.join(environment.values())}".replace(" ", "").replace(",", "-")
    result = subprocess.run(command(arguments, job, run, threads, True, 4), cwd=folder, capture_output=True, text=True,
                            env={**os.environ, **environment})
    if result.returncode != 0:
        raise SystemExit(f"{job}: {result.stdout[-1000:]}{result.stderr[-1000:]}")
    files = sorted((folder / run).rglob("metrics.jsonl"))
    return [(line["loss"], line["grad_norm"]) for file in files for line in map(json.loads, file.read_text().splitlines())]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what it has started
    parser = argparse.ArgumentParser(prog="scripts/bench/sameness", description="What run.reproducible costs.")
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB", help=f"of: {', '.join(map(repr, JOBS))}")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each (all cores)")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="per turn")
    arguments = parser.parse_args()
    print(f"{arguments.threads} threads\n{'':24} {'s/step':>8} {'same':>8} {'ratio':>6} {'MiB':>8}  the same bits on 1, 2, 3 threads, and with AVX2")
    for job in arguments.only:
        with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
            folder = Path(name)
            (folder / "data").symlink_to(ROOT / "data")
            price(folder, job, arguments)
            seen = [bits(folder, job, arguments, threads) for threads in (1, 2, 3)]
            narrow = bits(folder, job, arguments, 2, ATEN_CPU_CAPABILITY="avx2")
            print(f"  {'yes' if seen[0] == seen[1] == seen[2] else 'NO'}, {'yes' if narrow == seen[0] else 'NO'}", flush=True)


if __name__ == "__main__":
    main()
