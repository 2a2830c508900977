"""Reads the figures of a continued run with TensorBoard's own reader, from the file that Weights & Biases' own package keeps for its server,
and with MLflow's own client from its store, and compares them with metrics.jsonl and eval.jsonl.

PIPELINE_PYTHON names the interpreter that has the packages of observe-requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import argparse
import glob
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from peer_packages import needed, use_their_python

CONFIG = """
[run]
dir = "run"
device = "cpu"
[task]
plugin = "linear_regression"
[strategy]
plugin = "plain_sgd"
[optimizer]
kind = "sgd"
lr = 0.05
[train]
global_batch = 16
micro_batch = 4
max_steps = 60
[evaluate]
every = 20
[checkpoint]
every = 15
[observe]
tensorboard = true
wandb = true
wandb_project = "lines"
mlflow = true
mlflow_experiment = "lines"
"""


def store(folder):
    return "file:" + os.path.join(folder, "mlruns")


def run(arguments, folder, *sets):
    words = [os.path.abspath(arguments.pipeline), "run", "train.toml", "--plugin-path", os.path.abspath(arguments.plugins)]
    for value in sets:
        words += ["--set", value]
    # The client is the python3 that is first on the PATH.
    environment = dict(os.environ, WANDB_MODE="offline", MLFLOW_TRACKING_URI=store(folder), MLFLOW_ALLOW_FILE_STORE="true",
                       PATH=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])
    subprocess.run(words, cwd=folder, env=environment, check=True)


def written(folder):
    """{(group/name, step): value} of both files; what is null is left out."""
    figures = {}
    for group, name in (("train", "metrics"), ("eval", "eval")):
        with open(os.path.join(folder, f"{name}.jsonl")) as file:
            for line in map(json.loads, file):
                for key, value in line.items():
                    if key != "step" and value is not None:
                        point = (f"{group}/{key}", line["step"])
                        assert point not in figures
                        figures[point] = float(value)
    return figures


def in_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(folder, size_guidance={"scalars": 0})
    events.Reload()
    figures = {}
    for tag in events.Tags()["scalars"]:
        for event in events.Scalars(tag):
            assert (tag, event.step) not in figures, f"{tag} of step {event.step} is there twice"
            figures[tag, event.step] = event.value
    return figures


def wandb_records(path):
    """Its file is a LevelDB log: blocks of 32 KiB, in which a record may be cut (type 1: whole, 2 to 4: first, middle, last part)."""
    from wandb.proto import wandb_internal_pb2

    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] == b":W&B", data[:8]
    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, size, kind = struct.unpack("<IHB", data[at:at + 7])
        if kind == 0:
            break
        whole += data[at + 7:at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def in_wandb(folder):
    """The figures of all launches, and the runs' ids and projects."""
    figures, runs = {}, set()
    for path in sorted(glob.glob(os.path.join(folder, "wandb", "offline-run-*", "*.wandb"))):
        for record in wandb_records(path):
            if record.HasField("run"):
                runs.add((record.run.run_id, record.run.project, record.run.display_name))
            if record.HasField("history"):
                items = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
                for name, value in items.items():
                    if name.startswith(("train/", "eval/")):
                        assert (name, items["step"]) not in figures, f"{name} of step {items['step']} is there twice"
                        figures[name, items["step"]] = float(value)
    return figures, runs


def in_mlflow(folder):
    """The figures, and of each run its name, how it ended, and an option."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    client = mlflow.MlflowClient(store(folder))
    runs = client.search_runs([client.get_experiment_by_name("lines").experiment_id])
    figures = {}
    for name in [name for run in runs for name in run.data.metrics]:
        for metric in client.get_metric_history(runs[0].info.run_id, name):
            assert (name, metric.step) not in figures, f"{name} of step {metric.step} is there twice"
            figures[name, metric.step] = metric.value
    return figures, [(run.info.run_name, run.info.status, run.data.params["train.max_steps"]) for run in runs]


def compare(what, ours, theirs, tolerance):
    assert ours.keys() == theirs.keys(), f"{what}: only in the run {sorted(ours.keys() - theirs.keys())[:5]}, only there " \
        f"{sorted(theirs.keys() - ours.keys())[:5]}"
    assert ours, f"{what}: no figures"
    for point, value in ours.items():
        assert math.isclose(value, theirs[point], rel_tol=tolerance), f"{what}: {point}: {value!r} there {theirs[point]!r}"
    print(f"{what}: {len(ours)} figures, each once and as in the run")


def main():
    use_their_python()
    parser = argparse.ArgumentParser()
    parser.add_argument("--pipeline", required=True, help="the program")
    parser.add_argument("--plugins", required=True, help="the folder of the test plugins")
    arguments = parser.parse_args()
    global mlflow
    with needed("observe-requirements.txt"):
        import mlflow
        import tensorboard
        import wandb
    with tempfile.TemporaryDirectory() as root:
        with open(os.path.join(root, "train.toml"), "w") as file:
            file.write(CONFIG)
        folder = os.path.join(root, "run")
        run(arguments, root)
        first = written(folder)
        # Steps 46 to 60 are done again; W&B keeps what it was told of them the first time.
        shutil.rmtree(os.path.join(folder, "checkpoints", "step-00000060"))
        run(arguments, root, "train.max_steps=70")
        ours = written(folder)
        assert max(step for _, step in ours) == 70
        compare(f"TensorBoard {tensorboard.__version__}", ours, in_tensorboard(folder), 1e-6)
        theirs, runs = in_wandb(folder)
        assert len(runs) == 1 and {run[1:] for run in runs} == {("lines", "run")}, runs
        compare(f"W&B {wandb.__version__}", ours | first, theirs, 0)
        theirs, runs = in_mlflow(root)
        assert runs == [("run", "FINISHED", "60")], runs
        compare(f"MLflow {mlflow.__version__}", ours | first, theirs, 0)


if __name__ == "__main__":
    main()
