"""Compares the protein task's encoder-decoder with plain PyTorch (scripts/bench/protein_model.py), live: the losses of some steps, and what each
parameter has learnt in them.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from peer_packages import needed, use_their_python

STEPS = 6
# A large epsilon: an update is nearly the gradient there, and rounding in gradients of next to nothing is not made large.
OPTIMIZER = {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-3, "weight_decay": 0.1}
TOLERANCE = 1e-5  # of a loss
UPDATE_TOLERANCE = 1e-3  # of the norm of what a parameter has learnt

CONFIG = """
[run]
device = "cpu"
reproducible = true
[task]
plugin = "protein"
pdb_path = "structures"
hidden_dim = 32
num_encoder_layers = 2
num_decoder_layers = 3
num_heads = 4
pair_dim = 12
dropout = 0.0
data = { min_residues = 5, max_residues = 40, noise = 0.1 }
mask = { random = 0.1, keep = 0.1 }
[optimizer]
lr = %g
beta1 = %g
beta2 = %g
epsilon = %g
weight_decay = %g
[schedule]
kind = "constant"
warmup_steps = 0
[train]
precision = "fp32"
global_batch = 6
micro_batch = 3
clip_grad_norm = 0.0
max_epochs = 1_000
max_steps = %d
[evaluate]
every = 0
at_end = false
"""


def write_structures(folder):
    """Winding chains of made-up sequences; some without a side of the backbone, with a gap, or two in one structure."""
    folder.mkdir()
    names = "ALA CYS ASP GLU PHE GLY HIS ILE LYS LEU MET ASN PRO GLN ARG SER THR VAL TRP TYR".split()
    draw = random.Random(7)
    for number in range(16):
        lines = []
        for chain in "AB"[: 1 + (number % 5 == 0)]:
            phase, gap = draw.uniform(0, 6), draw.randrange(5, 20)
            for i in range(draw.randrange(12, 50)):
                name = draw.choice(names)
                for atom, shift, wobble in (("N", -0.33, 0.2), ("CA", 0, -0.3), ("C", 0.33, 0.4)):
                    if atom == "C" and i % 11 == 10:
                        continue  # no frame
                    t = i + shift
                    x = 2.3 * math.cos(1.7 * t + phase) + 6 * math.sin(0.11 * t + phase) + 30 * (chain == "B")
                    y, z = 2.3 * math.sin(1.7 * t + phase) + wobble, 1.5 * t + 3 * math.cos(0.23 * t)
                    lines.append(f"ATOM  {len(lines) + 1:5d}  {atom:<3s} {name} {chain}{i + 1 + 3 * (i > gap):4d}    {x:8.3f}{y:8.3f}{z:8.3f}  1.00 20.00           {atom[0]}")
            lines.append("TER")
        (folder / f"p{number}.pdb").write_text("\n".join([*lines, "END", ""]))


def pipeline(arguments, folder, *words):
    done = subprocess.run([arguments.pipeline, words[0], folder / "train.toml", *words[1:]], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{words} ended with {done.returncode}\n{done.stdout}"


def enliven(model):
    """Weights with which every parameter has a say: as a model starts, most gradients are next to nothing."""
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(3)
    weights = load_file(model / "model.safetensors")
    for name, value in weights.items():
        if value.dim() > 1:
            value.copy_(torch.randn_like(value) / value.shape[-2] ** 0.5)
        else:
            value.add_(0.3 * torch.randn_like(value))
    save_file(weights, model / "model.safetensors")


def compare(arguments, folder, unit):
    """One comparison, with samples that are chains or structures; returns the largest differences."""
    import protein_model
    import protein_peer
    import torch

    torch.set_num_threads(1)
    written = f"written-{unit}"
    common = ["--set", f"task.data.unit={unit}"]
    pipeline(arguments, folder, "run", *common, "--set", f"run.dir={written}", "--set", "task.plugin=protein_batches",
             "--set", f"plugins.paths={json.dumps([arguments.plugins])}")
    batches = folder / written / "batches"
    enliven(batches / "model")
    pipeline(arguments, folder, "run", *common, "--set", f"run.dir=run-{unit}", "--set", f"train.init_from={batches}/model")
    pipeline(arguments, folder, "export", *common, "--set", f"run.dir=run-{unit}", "--checkpoint", "last")
    losses = [json.loads(line)["loss"] for line in (folder / f"run-{unit}" / "metrics.jsonl").read_text().splitlines()]
    assert len(losses) == STEPS

    job = protein_peer.PlainPyTorch(batches / "model", protein_peer.read_steps(batches), protein_peer.adamw(OPTIMIZER), "cpu", "fp32")
    start = {name: value.clone() for name, value in job.model.state_dict().items()}
    worst_loss = 0.0
    for step, loss in enumerate(losses):
        theirs, _, _ = job.step()
        difference = abs(loss / theirs - 1)
        assert difference <= TOLERANCE, f"{unit}: loss of step {step + 1}: ours {loss}, PyTorch {theirs}"
        worst_loss = max(worst_loss, difference)
    learnt, worst = job.model.state_dict(), 0.0
    for name, ours in protein_model.EncoderDecoder.load(folder / f"run-{unit}" / "export").state_dict().items():
        update = (learnt[name] - start[name]).norm().item()
        assert update > 1e-4, f"{unit}: {name} has learnt nothing"
        difference = (ours - learnt[name]).norm().item() / update
        assert difference <= UPDATE_TOLERANCE, f"{unit}: {name} has learnt something else: differs by {difference:.1e} of the update {update:.2g}"
        worst = max(worst, difference)
    return worst_loss, worst


def main():
    parser = argparse.ArgumentParser()
    for name in ("pipeline", "plugins", "bench"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    use_their_python()
    with needed():
        import safetensors.torch  # noqa: F401
        import torch  # noqa: F401
    sys.path.insert(0, arguments.bench)
    with tempfile.TemporaryDirectory(prefix="pipeline-parity-") as name:
        folder = Path(name)
        write_structures(folder / "structures")
        settings = (OPTIMIZER["lr"], *OPTIMIZER["betas"], OPTIMIZER["eps"], OPTIMIZER["weight_decay"], STEPS)
        (folder / "train.toml").write_text(CONFIG % settings)
        for unit in ("chain", "structure"):
            loss, update = compare(arguments, folder, unit)
            print(f"{unit}: losses of {STEPS} steps differ by at most {loss:.1e}, updates of parameters by {update:.1e} of their norms")


if __name__ == "__main__":
    main()
