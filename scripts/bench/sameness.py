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

from side_by_side import DevicePipeline, Pipeline, take_turns_all

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
# On a device, in bf16: GPT-2 124M, Llama 3.2's and ESM-2's shapes, and LLaVA 1.5's tower before such a Llama.
LLAMA_1B = ["architecture=\"llama\"", "hidden_size=2048", "intermediate_size=8192", "num_hidden_layers=16", "num_attention_heads=32",
            "num_key_value_heads=8", "max_position_embeddings=4096"]
FULL = ["task.sequence.max_tokens=1024", "train.global_batch=32", "train.micro_batch=16"]
TOWER = ["image_size=336", "patch_size=14", "hidden_size=1024", "num_hidden_layers=23", "num_attention_heads=16", "intermediate_size=4096"]


def below(table, settings):
    return [f"task.{table}.{setting}" for setting in settings]


DEVICE_JOBS = {
    "GPT-2 124M": ("summarization", [*FULL, *below("language", ["hidden_size=768", "num_hidden_layers=12", "num_attention_heads=12",
                                                                "max_position_embeddings=1024"])]),
    "Llama 1B": ("summarization", [*FULL, *below("language", LLAMA_1B)]),
    "Llama 1B, LoRA": ("summarization", [*FULL, *below("language", LLAMA_1B), *LORA]),
    "LLaVA, Llama 1B": ("vlm", ["stage.pretrain.train.max_steps={steps}", *below("vision", TOWER),
                                *below("language", LLAMA_1B), "task.chat.max_tokens=1024", 'task.freeze=["vision.*"]']),
    "ESM-2 650M": ("protein-esm2", below("esm2", ["num_layers=33", "hidden_dim=1280"])),
}
QUIET = ["evaluate.every=0", "evaluate.at_end=false", "checkpoint.every=0", "checkpoint.on_full_disk=continue"]


def command(arguments, job, run, threads, reproducible, steps):
    config, more = {**JOBS, **DEVICE_JOBS}[job]
    if arguments.small:  # the shapes of the configuration
        more = [setting for setting in more if setting.startswith(("stage.", "task.freeze"))]
    settings = [f"run.dir={run}", f"run.device={arguments.device}", f"launch.threads={threads}", f"run.reproducible={str(reproducible).lower()}", "run.cache_dir=cache",
                *QUIET, *(setting.format(steps=steps) for setting in more)]
    if config != "vlm":
        settings.append(f"train.max_steps={steps}")
    stage = ["--stage", "pretrain"] if config == "vlm" and job in DEVICE_JOBS else []
    return [arguments.pipeline, "run", str(arguments.configs / f"{config}.toml"), *stage, *(word for s in settings for word in ("--set", s))]


def price(folder, job, arguments, prices):
    """Both in turns: how much longer a step takes where it has the same bits."""
    steps = (arguments.turns + 1) * (arguments.steps + 3) + 8
    starts = [partial(start, folder, job, arguments, reproducible, steps) for reproducible in (False, True)]
    fast, same = take_turns_all(starts, arguments.turns, arguments.steps, before=2)
    ratios = [b / a for a, b in zip(fast.seconds, same.seconds)]
    prices[job] = statistics.median(ratios)
    print(f"{job:24} {statistics.median(fast.seconds) / arguments.steps:8.3f} {statistics.median(same.seconds) / arguments.steps:8.3f} "
          f"{statistics.median(ratios):6.2f} {more_memory(fast, same):+8.0f}", end="", flush=True)


def more_memory(fast, same):
    """MiB: on the device, where the driver tells, else on the host."""
    return same.device - fast.device if same.device and fast.device else (same.peak - fast.peak) / 2**20


def start(folder, job, arguments, reproducible, steps):
    run = f"{job}-{reproducible}".replace(" ", "").replace(",", "-")
    kind = DevicePipeline if arguments.device != "cpu" or arguments.small else Pipeline
    one = kind(folder, command(arguments, job, run, arguments.threads, reproducible, steps), run)
    if {**JOBS, **DEVICE_JOBS}[job][0] == "vlm":
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
    parser.add_argument("--configs", type=Path, default=ROOT / "configs", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, default=ROOT / "data", help=argparse.SUPPRESS)
    names = [*JOBS, *DEVICE_JOBS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="JOB", help=f"of: {', '.join(map(repr, names))}")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda, which has jobs of its own (cpu)")
    parser.add_argument("--small", action="store_true", help=argparse.SUPPRESS)  # a device's jobs, to try them on the CPU
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each (all cores)")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="per turn")
    arguments = parser.parse_args()
    print(f"{arguments.threads} threads\n{'':24} {'s/step':>8} {'same':>8} {'ratio':>6} {'MiB':>8}  the same bits on 1, 2, 3 threads, and with AVX2")
    is_device, prices = arguments.device != "cpu" or arguments.small, {}
    for job in arguments.only or (DEVICE_JOBS if is_device else JOBS):
        with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
            folder = Path(name)
            (folder / "data").symlink_to(arguments.data.resolve())
            price(folder, job, arguments, prices)
            if is_device:
                print(flush=True)
                continue
            seen = [bits(folder, job, arguments, threads) for threads in (1, 2, 3)]
            narrow = bits(folder, job, arguments, 2, ATEN_CPU_CAPABILITY="avx2")
            print(f"  {'yes' if seen[0] == seen[1] == seen[2] else 'NO'}, {'yes' if narrow == seen[0] else 'NO'}", flush=True)
    print(json.dumps(prices))


if __name__ == "__main__":
    main()
