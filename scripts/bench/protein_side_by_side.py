"""Trains a protein model with `pipeline run` and with a peer (protein_peer.py) in turns; see scripts/bench/protein. How turns are taken:
side_by_side.py.

The batches are ours: a run of the test plugin protein_batches, with the same configuration, writes them and the first weights. Both learn from all
of them in the same order, and a turn is the same steps for both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from side_by_side import DevicePipeline, Peer, Pipeline, device_figures, take_turns

# Configuration, and options of the task beside it. Nothing is dropped, so that losses can be compared.
MODELS = {
    "encoder-decoder": ("protein.toml", "dropout = 0.0"),
    "esm2-8M": ("protein-esm2.toml", ""),
    "esm2-35M": ("protein-esm2.toml", "esm2.num_layers = 12\nesm2.hidden_dim = 480"),
    "esm2-650M": ("protein-esm2.toml", "esm2.num_layers = 33\nesm2.hidden_dim = 1280"),
}
# Two runs that do not compute the same are not compared. Rounding is about 1e-7, in bfloat16 4e-3 for each number.
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2}
OPTIMIZER = {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}


def write_config(folder, arguments, steps):
    """One for both runs, which set the task's plugin and the run's folder on the command line."""
    base, options = MODELS[arguments.model]
    path = folder / "bench.toml"
    path.write_text(f"""
extends = {json.dumps(str(arguments.configs / base))}
[run]
device = "{arguments.device}"
cache_dir = "cache"
[task]
pdb_path = {json.dumps(str(arguments.structures))}
{options}
[task.split]
folds = 10  # more to learn from
[optimizer]
lr = {OPTIMIZER["lr"]}
beta1 = {OPTIMIZER["betas"][0]}
beta2 = {OPTIMIZER["betas"][1]}
epsilon = {OPTIMIZER["eps"]}
weight_decay = {OPTIMIZER["weight_decay"]}
[schedule]
kind = "constant"
warmup_steps = 0
[train]
precision = "{arguments.precision}"
global_batch = {arguments.batch}
micro_batch = {arguments.micro_batch}
clip_grad_norm = 0.0
max_epochs = 1_000_000
max_steps = {steps}
[loader]
group_by_length = true
[evaluate]
every = 0
at_end = false
[checkpoint]
every = 0
background = false
[launch]
processes = 1
threads = {arguments.threads}
""")
    return path


def write_batches(folder, config, arguments):
    """In `folder`/written/batches; returns the residues of each step."""
    command = [arguments.pipeline, "run", config, "--set", "run.dir=written", "--set", "task.plugin=protein_batches", "--set", "run.device=cpu",
               "--set", "train.precision=fp32",
               "--set", f"plugins.paths={json.dumps([str(arguments.plugins)])}"]
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout[-2000:]}")
    print(*(line for line in done.stdout.splitlines() if line.startswith(("data  ", "model  "))), sep="\n")
    return [json.loads(line)["tokens"] for line in (folder / "written" / "metrics.jsonl").read_text().splitlines()]


def our_command(folder, config, arguments):
    return [arguments.pipeline, "run", config, "--set", "run.dir=run", "--set", f"train.init_from={folder}/written/batches/model"]


class Theirs(Peer):
    def __init__(self, folder, arguments):
        esm2 = arguments.model != "encoder-decoder"
        command = [sys.executable, Path(__file__).with_name("protein_peer.py"), "--batches", folder / "written" / "batches",
                   "--threads", str(arguments.threads), "--optimizer", json.dumps(OPTIMIZER), "--device", arguments.device,
                   "--precision", arguments.precision]
        command += ["--esm2"] * esm2 + ["--shuffle", str(arguments.steps)] * arguments.shuffled
        super().__init__("transformers" if esm2 else "PyTorch", command)

    def warm_up(self, steps=1):
        super().warm_up(steps + 1)  # one more, which ours has done as well when it reports the one before


def report(ours, theirs, residues, arguments):
    """residues: of each step."""
    padding = 1 - theirs.tokens / theirs.padded
    for c in (theirs, ours):
        speeds = c.speeds(residues)
        print(f"{c.name:13} {c.speed(residues):8.1f} residues/s (turns {min(speeds):.0f} to {max(speeds):.0f})  "
              f"padding {100 * padding if c is theirs else 0:4.1f}%  peak {c.peak / 2**20:6.0f} MiB")
    ratios = [a / b for a, b in zip(ours.speeds(residues), theirs.speeds(residues))]
    print(f"speed {ours.speed(residues) / theirs.speed(residues):.2f} times theirs (turns: {' '.join(f'{r:.2f}' for r in ratios)}, median "
          f"{statistics.median(ratios):.2f}; by CPU time {sum(theirs.cpu) / sum(ours.cpu):.2f}), peak memory {ours.peak / theirs.peak:.3f} times theirs")
    pairs = list(zip(ours.losses, theirs.losses))[: 2 if arguments.shuffled else None]
    most = max(abs(a / b - 1) for a, b in pairs)
    if arguments.shuffled:
        print("their batches were put together at random, from the chains of a turn: losses are compared before the turns alone")
    print(f"losses {ours.losses[0]:.6f} ... {pairs[-1][0]:.6f} and {theirs.losses[0]:.6f} ... {pairs[-1][1]:.6f}: "
          f"the first differs by {abs(pairs[0][0] / pairs[0][1] - 1):.1e}, the most by {most:.1e}")
    tolerance = TOLERANCE[arguments.precision]
    if not most <= tolerance:
        raise SystemExit(f"the losses differ by {most:.1e}, more than {tolerance:.0e}: these are not the same computations, and their times tell nothing")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench/protein", description="pipeline run beside PyTorch, or beside transformers + Accelerate.")
    parser.add_argument("model", choices=MODELS)
    for name in ("pipeline", "plugins", "configs", "structures"):
        parser.add_argument(f"--{name}", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, default=8, help="samples per step (8)")
    parser.add_argument("--micro-batch", type=int, help="samples per forward pass (all of a step; for the encoder-decoder alone)")
    parser.add_argument("--shuffled", action="store_true", help="their batches at random, not of similar length (ESM-2 alone)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each of the two (all cores)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (cpu)")
    parser.add_argument("--precision", choices=TOLERANCE, default="fp32", help="of both (fp32)")
    parser.add_argument("--json", action="store_true", help="the figures once more, as a line of JSON")
    parser.add_argument("--device-turns", action="store_true", help=argparse.SUPPRESS)  # turns as on a device, to try them on the CPU
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=9, help="per turn (9: an epoch, at 8 samples a step)")
    arguments = parser.parse_args()
    arguments.micro_batch = arguments.micro_batch or arguments.batch
    if arguments.model != "encoder-decoder" and arguments.micro_batch != arguments.batch:
        parser.error("the peer of ESM-2 takes a step's samples at once")
    if arguments.model == "encoder-decoder" and arguments.shuffled:
        parser.error("the encoder-decoder's peer has its batches padded beforehand: --shuffled is for ESM-2")
    device = arguments.device == "cuda" or arguments.device_turns
    if device and arguments.shuffled:
        parser.error("the two do not take the same steps in their turns on a device: --shuffled is for the CPU")

    before, more = (5, 3) if device else (1, 0)  # steps before the turns; steps more that ours takes in a turn, at most
    steps = before + 1 + arguments.turns * (arguments.steps + more)
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder = Path(name)
        config = write_config(folder, arguments, steps + 9)  # the last is never reached: a run that ends reports its last step sooner
        residues = write_batches(folder, config, arguments)
        ours, theirs = take_turns(lambda: (DevicePipeline if device else Pipeline)(folder, our_command(folder, config, arguments)),
                                  lambda: Theirs(folder, arguments), arguments.turns, arguments.steps, before)
    if arguments.json:
        print(json.dumps(device_figures(ours, theirs, residues)))
    report(ours, theirs, residues, arguments)


if __name__ == "__main__":
    main()
