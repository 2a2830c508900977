"""Runs of `pipeline` for gpu-check: small jobs of each task, what they reported, and whether two have the same bits."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

# Small enough for seconds on a CPU, of the shapes that matter: several layers, ragged sequences, accumulation. By name: config, --set.
SMALL_GPT2 = ["task.language.num_hidden_layers=2", "task.language.num_attention_heads=2", "task.language.hidden_size=128", "train.global_batch=16", "train.micro_batch=4",
              "task.rouge.validate_samples=4", "task.rouge.evaluate_samples=8", "evaluate.max_samples=32"]
SMALL_PROTEIN = ["train.batch_per_device=\"unset\"", "train.global_batch=8", "train.micro_batch=4", "train.max_epochs=\"unset\"",
                 "evaluate.max_samples=8"]
# One stage of its two; its folder is below the run's.
SMALL_VLM = ["train.global_batch=16", "train.micro_batch=4", "task.generate.validate_samples=4", "task.generate.evaluate_samples=8",
             "task.generate.retrieval=8", "evaluate.max_samples=16"]
STAGES = {"vlm.toml": "pretrain"}
UNEVALUATED = ["evaluate.every=0", "evaluate.at_end=false"]  # the training alone; for `evaluate` and the like there are items of their own
JOBS = {
    "template": ("template.toml", []),
    "summarization": ("summarization.toml", SMALL_GPT2),
    "summarization-summary": ("summarization.toml", [*SMALL_GPT2, "task.sequence.loss=summary"]),
    "summarization-dropout": ("summarization.toml", [*SMALL_GPT2, "task.language.dropout=0.1"]),
    "protein": ("protein-quick.toml", SMALL_PROTEIN),
    "vlm": ("vlm.toml", SMALL_VLM),
    "vlm-frozen": ("vlm.toml", [*SMALL_VLM, 'task.freeze=["vision.*"]']),
    "esm2": ("protein-esm2.toml", [*SMALL_PROTEIN, "task.esm2.num_layers=2", "task.esm2.hidden_dim=64", "task.esm2.num_heads=4"]),
}


class Runner:
    """program: `pipeline`; configs, work: folders; environment: of every run;
    seconds: how long all of them may take together."""

    def __init__(self, program, configs, work, environment, seconds):
        self.program, self.configs, self.work, self.environment = program, configs, work, environment
        self.end = time.monotonic() + seconds

    def seconds_left(self):
        return self.end - time.monotonic()

    def command(self, verb, job, name, *sets):
        config, fixed = JOBS[job]
        stage = ["--stage", STAGES[config]] if config in STAGES else []
        settings = [f"run.dir={name}", "run.cache_dir=cache", "run.device=cuda", "launch.processes=1", *fixed, *sets]
        return [self.program, verb, str(self.configs / config), *stage, *(word for s in settings for word in ("--set", s))]

    def folder(self, name):
        """Of the run, or of the one stage of it that ran."""
        return next((self.work / name / stage for stage in STAGES.values() if (self.work / name / stage).exists()), self.work / name)

    def start(self, command, **environment):
        return subprocess.Popen(command, cwd=self.work, env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)

    def finish(self, process, timeout=280):
        """What it printed, once it has ended. Late, it is killed with all that it started: the next item has the device for itself."""
        timeout = max(0, min(timeout, self.seconds_left()))
        try:
            return process.communicate(timeout=timeout)[0]
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            text = process.communicate()[0]
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise AssertionError(f"killed after {timeout:.0f} s: {words(process.args)}\n{text[-2000:]}") from None

    def output(self, command, code=0, timeout=280, **environment):
        process = self.start(command, **environment)
        text = self.finish(process, timeout)
        assert process.returncode == code, f"ended with {process.returncode}, not {code}: {words(command)}\n{text[-2000:]}"
        return text

    def train(self, job, name, *sets, steps=12, **environment):
        self.output([*self.command("run", job, name, f"train.max_steps={steps}", *UNEVALUATED, *sets), "--fresh"], **environment)
        return self.losses(name)

    def killed_and_continued(self, job, name, *sets, steps=12):
        """The same in a new folder, killed once a quarter of its steps is saved, and started again. Returns whether it still ran then."""
        command = self.command("run", job, name, f"train.max_steps={steps}", f"checkpoint.every={steps // 4}", *UNEVALUATED, *sets)
        process = self.start(command)
        saved = Path("checkpoints") / f"step-{steps // 4:08d}" / "manifest.json"
        while process.poll() is None and self.seconds_left() > 0 and not (self.folder(name) / saved).exists():
            time.sleep(0.001)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        self.finish(process)
        self.output(command)
        return process.returncode == -signal.SIGKILL

    def metrics(self, name):
        return [json.loads(text) for text in (self.folder(name) / "metrics.jsonl").read_text().splitlines()]

    def summary(self, name):
        return json.loads((self.folder(name) / "summary.json").read_text())

    def losses(self, name):
        return [step["loss"] for step in self.metrics(name)]

    def norms(self, name):
        """Of the gradients; None where float16 has left out a step."""
        return [step["grad_norm"] for step in self.metrics(name)]

    def weights(self, name, steps=12):
        """The bytes of the last checkpoint's tensors."""
        folder = self.folder(name) / "checkpoints" / f"step-{steps:08d}"
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


def words(command):
    return " ".join(map(str, command))


def largest_difference(a, b):
    assert len(a) == len(b) > 0, f"{len(a)} and {len(b)} steps"
    differences = [abs(x - y) / max(abs(y), 1e-6) for x, y in zip(a, b) if x is not None and y is not None]
    assert differences, "no step has both"
    return max(differences)
