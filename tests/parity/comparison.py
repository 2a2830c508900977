"""What comparisons of our programs with their packages have in common."""
import argparse
import csv
import importlib
import json
import os
import subprocess
import warnings

from peer_packages import needed, use_their_python


def started(program, *packages, switches=()):
    """The arguments --PROGRAM and switches, once this runs in a Python with these packages and they are quiet."""
    use_their_python()
    parser = argparse.ArgumentParser()
    parser.add_argument(f"--{program}", required=True)
    for switch in switches:
        parser.add_argument(f"--{switch}", action="store_true")
    arguments = parser.parse_args()
    with needed():
        modules = {package: importlib.import_module(package) for package in packages}
    if "transformers" in modules:
        modules["transformers"].logging.set_verbosity_error()
    warnings.filterwarnings("error", message="Found missing adapter keys")
    if "torch" in modules:
        modules["torch"].set_num_threads(1)  # small models: threads only wait for each other
    return arguments


def run(program, work, *words, **options):
    """What the program prints."""
    result = subprocess.run([program, *words], cwd=work, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, f"{' '.join(words)}: {result.stdout[-2000:]}{result.stderr[-2000:]}"
    return result.stdout


def run_on_cpu(program, work, *words):
    return run(program, work, *words, "--set", "run.device=cpu", "--set", "run.cache_dir=cache")


def plain_training(folder, batch, steps, rate):
    """The end of a configuration: steps that PyTorch's AdamW makes, too, one record after the other."""
    return f"""[train]
init_from = "{folder}"
precision = "fp32"
global_batch = {batch}
micro_batch = 2
max_steps = {steps}
clip_grad_norm = 1e9
[optimizer]
lr = {rate}
beta2 = 0.999
weight_decay = 0.0
[schedule]
kind = "constant"
[loader]
shuffle = false
"""


def write_rows(path, rows):
    """As JSON, a line each."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def steps_of(folder, *names):
    """[(what the run in this folder says under these names)] of its steps."""
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as file:
        return [tuple(step[name] for name in names) for step in map(json.loads, file)]


def worst_of(ours, expected, what):
    """By how much the figures of steps differ at most, as shares, if it is small enough."""
    assert len(ours) == len(expected) > 0, ours
    worst = [max(abs(a - b) / abs(b) for a, b in zip(of_ours, of_theirs, strict=True))
             for of_ours, of_theirs in zip(zip(*ours, strict=True), zip(*expected, strict=True), strict=True)]
    assert max(worst) < 1e-5, f"{what}: {worst}\nours     {ours}\nexpected {expected}"
    return worst


def ask(probe, source, out, request):
    """A probe's answer."""
    result = subprocess.run([probe, source, out], input=json.dumps(request), stdout=subprocess.PIPE, text=True, check=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(result.stdout)


def table(file):
    with open(file, encoding="utf-8", newline="") as rows:
        return list(csv.DictReader(rows))


def check(what, ours, theirs, tolerance=3e-5):
    """The difference as a share of the norm, in fp32, if it is small enough."""
    assert ours.shape == theirs.shape, f"{what}: ours {tuple(ours.shape)}, transformers {tuple(theirs.shape)}"
    norm = theirs.double().norm().item()
    difference = (ours.double() - theirs.double()).norm().item() / norm
    assert difference <= tolerance, f"{what}: differs by {difference:.2e} of its norm {norm:.3g}, tolerance {tolerance}"
    return difference
