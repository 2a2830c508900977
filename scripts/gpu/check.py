"""gpu-check run: everything that needs a device, cheap and fatal first. Each item is independent: what fails does not stop the rest.

Without a device (a rehearsal) the items run on the CPU as far as they can, and those that need one are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from record import Record, Skipped, table
from runs import JOBS, Runner, largest_difference

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / ".gpu"
BENCH = ROOT / "scripts" / "bench"
BANDS = {"bf16": 0.05, "fp16": 0.02}  # of the losses of a dozen steps, against float32


def shell(*command, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **more)
    assert result.returncode == 0, f"{command[0]} ended with {result.returncode}\n{(result.stdout + result.stderr)[-3000:]}"
    return result.stdout + result.stderr


def figures_of(text):
    """Of a benchmark: its last line of JSON. Warnings of libraries may come after it."""
    return json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))


class Check:
    def __init__(self, out, name):
        self.packed = json.loads((GPU / "pack.json").read_text())
        self.devices = self.nvidia_smi()
        self.device = "cuda" if self.devices else "cpu"
        self.record = Record(out / f"{name}.json", {"device": self.devices[0] if self.devices else "none", "pack": self.packed["commit"]})
        self.out = out
        self.work = Path(tempfile.mkdtemp(prefix="gpu-check-"))
        (self.work / "data").symlink_to(GPU / "data")
        self.environment = dict(os.environ)
        self.runner = Runner(str(GPU / "prefix/bin/pipeline"), ROOT / "configs", self.work, self.device, self.environment)

    @staticmethod
    def nvidia_smi():
        try:
            return shell("nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader").strip().splitlines()
        except (AssertionError, FileNotFoundError):
            return []

    def needs_device(self, count=1):
        if len(self.devices) < count:
            raise Skipped(f"needs {count} devices, {len(self.devices)} here" if count > 1 else "needs a device")

    # 0. What is here.

    def libraries(self, figures):
        """Finds LibTorch where Python has it, puts links where the programs look, and loads each of them."""
        import torch

        site = Path(torch.__path__[0]).parent
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipeline"
        if not any(cache.glob("torch-*/torch")):
            shell(ROOT / "scripts/setup/torch", "--from", site)
        torch_lib = next(cache.glob("torch-*/torch")) / "lib"
        self.environment["LD_LIBRARY_PATH"] = f"{GPU / 'lib'}:{torch_lib}"
        build = Path(self.packed["build"])  # the tests look for plugins there
        if not build.exists():
            build.parent.mkdir(parents=True, exist_ok=True)
            build.symlink_to(GPU / "prefix")
        files = [p for p in (GPU / "prefix").rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
        missing = []
        for path in files:
            found = shell("ldd", path, env=self.environment)
            missing += [f"{path.name}: {name}" for name in re.findall(r"(\S+) => not found", found)]
        assert not missing, "\n".join(missing)
        figures["programs"] = len(files)
        return f"torch {torch.__version__}"

    def devices_and_plugins(self, figures):
        text = self.runner.output([self.runner.program, "devices"])
        if self.devices:
            assert "cuda:0" in text, text
        plugins = self.runner.output([self.runner.program, "plugins"])
        for name in ("summarization", "protein", "single", "ddp", "sharded", "nccl"):
            assert re.search(rf"\b{name}\b", plugins), f"{name} is not among the plugins:\n{plugins}"
        figures["devices"] = len(self.devices)
        return next((text_line for text_line in text.splitlines() if text_line.startswith("cuda")), "")

    def ceilings(self, figures):
        self.needs_device()
        figures.update(figures_of(shell(sys.executable, Path(__file__).with_name("ceilings.py"))))

    # 1 and 2. Operations and strategies.

    def tests(self, program, which="*"):
        def check(figures):
            report = self.work / f"{program}.json"
            process = subprocess.run([GPU / "prefix/tests/bin" / program, f"--gtest_filter={which}", f"--gtest_output=json:{report}"],
                                     env=self.environment, capture_output=True, text=True, check=False, timeout=400)
            (self.out / f"{program}.log").write_text(process.stdout + process.stderr)
            assert report.exists(), f"ended with {process.returncode}\n{(process.stdout + process.stderr)[-2000:]}"
            tests = [t for suite in json.loads(report.read_text())["testsuites"] for t in suite["testsuite"]]
            failed = [f"{t['classname']}.{t['name']}: {t['failures'][0]['failure'][:300]}" for t in tests if "failures" in t]
            skipped = sum(t.get("result") == "SKIPPED" for t in tests)
            figures.update(passed=len(tests) - len(failed) - skipped, failed=len(failed), skipped=skipped)
            assert not failed, "\n".join(failed)
            assert process.returncode == 0, f"ended with {process.returncode}"

        return check

    # 3. Runs.

    def curve(self, job, precision, *sets):
        def check(figures):
            if precision == "fp16":
                self.needs_device()  # the CPU refuses it
            reference = self.runner.train(job, f"{job}-cpu", "train.precision=fp32", "run.device=cpu")
            losses = self.runner.train(job, f"{job}-{precision}", f"train.precision={precision}", *sets)
            figures["difference"] = largest_difference(losses, reference)
            band = BANDS.get(precision, 1e-4)
            assert figures["difference"] <= band, f"more than {band}: {losses} and {reference}"

        return check

    def same_bits(self, job, *sets):
        """Twice, killed and continued, and with activations computed again."""

        def check(figures):
            fixed, here = ["run.reproducible=true", *sets], f"same-{len(self.record.content['items'])}"
            self.runner.train(job, f"{here}/once", *fixed)
            self.runner.train(job, f"{here}/twice", *fixed)
            self.runner.killed_and_continued(job, f"{here}/killed", *fixed)
            self.runner.train(job, f"{here}/recomputed", *fixed, "train.activation_checkpointing=true")
            wanted = self.runner.weights(f"{here}/once")
            assert wanted, "there is no checkpoint"
            different = [name for name in ("twice", "killed", "recomputed") if self.runner.weights(f"{here}/{name}") != wanted]
            assert not different, f"other bits: {', '.join(different)}"
            figures["bytes"] = sum(map(len, wanted.values()))

        return check

    def other_verbs(self, figures):
        self.runner.train("summarization", "verbs")
        for verb in ("evaluate", "predict", "export"):
            text = self.runner.output(self.runner.command(verb, "summarization", "verbs"))
            assert "error" not in text, text[-1000:]

    def watching(self, figures):
        """What is said of a device before, during and after a run: planned and predicted memory, use, a found micro-batch, a trace."""
        long = ["task.sequence.max_tokens=96", "train.global_batch=64", "train.micro_batch=32"]
        plan = json.loads(self.runner.output([*self.runner.command("plan", "summarization", "watched", *long), "--json"]))
        planned = next(row["memory"]["peak"] for row in plan["strategies"] if row["configured"])
        self.runner.train("summarization", "watched", *long, "observe.profile=5-6")
        rank = self.runner.summary("watched")["ranks"][0]
        measured = rank["device_memory"] if self.devices else rank["host_memory"]
        figures.update({"planned/measured": planned / measured, "predicted/measured": rank["predicted_memory"] / measured})
        events = json.loads((self.runner.folder("watched") / "profile/trace.json").read_text())["traceEvents"]
        figures["events"] = len(events)
        self.runner.train("summarization", "found", "train.global_batch=64", 'train.micro_batch="auto"')
        assert 0.9 <= figures["planned/measured"] <= 1.1, figures
        assert 0.9 <= figures["predicted/measured"] <= 1.1, figures
        if self.devices:
            assert any(event.get("cat") == "kernel" for event in events), "no kernel in the trace"
            figures.update({"utilisation": rank["device_utilisation"], "driver memory": rank["driver_memory"]})

    def too_large(self, figures):
        self.needs_device()
        huge = ["task.model.n_embd=1920", "task.model.n_layer=48", "task.model.n_positions=1024", "task.sequence.max_tokens=1024",
                "train.global_batch=4096", "train.micro_batch=4096", "train.max_steps=2"]
        process = self.runner.start([*self.runner.command("run", "summarization", "huge", *huge), "--fresh"])
        text = process.communicate(timeout=280)[0]
        assert process.returncode not in (0, 139, -11), text[-2000:]
        assert "out of memory" in text and "micro_batch" in text, text[-2000:]
        return text.strip().splitlines()[-1]

    def hidden_device(self, figures):
        text = self.runner.output([*self.runner.command("run", "template", "hidden", "train.max_steps=2", "run.device=auto"), "--fresh"],
                                  CUDA_VISIBLE_DEVICES="")
        assert re.search(r"^device +cpu", text, re.M), text[-1000:]

    # 4. Several ranks.

    def two_ranks_on_one_device(self, figures):
        self.needs_device()
        command = self.runner.command("run", "template", "two", "train.max_steps=2", f"launch.processes={len(self.devices) + 1}")
        process = self.runner.start([*command, "--fresh"])
        text = process.communicate(timeout=120)[0]
        assert process.returncode == 2 and "device" in text, f"{process.returncode}: {text[-1000:]}"
        return text.strip().splitlines()[-1]

    def several_devices(self, strategy, *sets):
        def check(figures):
            self.needs_device(2)
            fixed = ["run.reproducible=true", "train.precision=fp32"]
            self.runner.train("summarization", "one", *fixed)
            self.runner.train("summarization", "many", *fixed, f"strategy.plugin={strategy}", *sets, f"launch.processes={min(4, len(self.devices))}")
            assert self.runner.losses("many") == self.runner.losses("one"), "other losses than on one device"

        return check

    # 5. Waits, memory errors.

    def waits(self, figures):
        """Per step, between runs of 20 and of 40 steps: what it takes to start and to end cancels."""
        self.needs_device()
        counts = []
        for steps in (20, 40):
            file = self.work / f"waits-{steps}"
            self.runner.train("summarization", "waits", "checkpoint.every=1000", "evaluate.every=1000", steps=steps,
                              LD_PRELOAD=str(GPU / "lib/count_waits.so"), COUNT_WAITS=str(file))
            counts.append({name: int(count) for name, count in (line.split() for line in file.read_text().splitlines())})
        figures.update({name: (counts[1][name] - counts[0][name]) / 20 for name in counts[0]})
        assert figures["cudaEventSynchronize"] <= 1 and figures["cudaStreamSynchronize"] == 0 and figures["cudaDeviceSynchronize"] == 0, figures
        assert figures["cudaMemcpy"] == 0, figures

    def memory_errors(self, figures):
        self.needs_device()
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not Path(tool).exists():
            raise Skipped("compute-sanitizer is not here")
        text = self.runner.output([tool, "--error-exitcode=99", "--print-limit=5",
                                   *self.runner.command("run", "summarization", "sanitized", "train.max_steps=3"), "--fresh"])
        return next((text_line for text_line in text.splitlines() if "ERROR SUMMARY" in text_line), "")

    # 6. Speed.

    def gpt2(self, *arguments):
        def check(figures):
            self.needs_device()
            figures.update(figures_of(shell(sys.executable, BENCH / "gpt2_cuda.py", "--pipeline", self.runner.program, "--vocabulary",
                                            GPU / "data/gpt2", *arguments, env=self.environment)))

        return check

    def kernels(self, figures):
        """What the device did in a step of GPT-2 124M, between runs of 4 and of 8 steps, by kernel."""
        self.needs_device()
        shape = ["task.model.n_layer=12", "task.model.n_head=12", "task.model.n_embd=768", "task.model.n_positions=1024",
                 "task.sequence.max_tokens=1024", f"task.tokenizer.path={GPU / 'data/gpt2'}", "train.global_batch=16", "train.micro_batch=16",
                 "train.precision=bf16", "evaluate.every=1000", "checkpoint.every=1000"]
        rows = []
        for steps in (4, 8):
            file = self.work / f"kernels-{steps}"
            self.runner.train("summarization", "kernels", *shape, steps=steps, LIST_KERNELS=str(file),
                              CUDA_INJECTION64_PATH=str(GPU / "lib/list_kernels.so"))
            found = (line.split(" ", 2) for line in file.read_text().splitlines())
            rows.append({name: (float(time), int(count)) for time, count, name in found})
        per_step = {name: ((time - rows[0].get(name, (0, 0))[0]) / 4, (count - rows[0].get(name, (0, 0))[1]) / 4)
                    for name, (time, count) in rows[1].items()}
        ordered = sorted(per_step.items(), key=lambda row: -row[1][0])
        (self.out / "kernels.csv").write_text("microseconds a step,launches a step,kernel\n" +
                                              "".join(f'{time:.1f},{count:.2f},"{name}"\n' for name, (time, count) in ordered))
        figures.update({"ms/step": sum(time for time, _ in per_step.values()) / 1000, "launches/step": sum(count for _, count in per_step.values())})
        return "; ".join(f"{time / 1000:.2f} ms {name[:60]}" for name, (time, _) in ordered[:5])

    def protein_model(self, model, *arguments):
        def check(figures):
            self.needs_device()
            prefix = GPU / "prefix"
            figures.update(figures_of(shell(sys.executable, BENCH / "protein_side_by_side.py", model, "--pipeline", self.runner.program, "--plugins",
                         prefix / "tests/plugins", "--configs", ROOT / "configs", "--structures", GPU / "data/protein-structures",
                         "--device", "cuda", "--precision", "bf16", "--json", *arguments, env=self.environment)))

        return check

    def first_part(self):
        item = self.record.item
        item("libraries", self.libraries)
        item("devices and plugins", self.devices_and_plugins)
        item("ceilings", self.ceilings)
        item("operations and strategies", self.tests("cuda_test"))
        item("nccl", self.tests("backends_test", "Nccl.*"))
        for job in JOBS:
            item(f"{job} fp32", self.curve(job, "fp32"))
            for precision in ("bf16", "fp16"):
                item(f"{job} {precision}", self.curve(job, precision))
        for job in ("summarization-dropout", "protein", "esm2", "vlm", "vlm-frozen"):
            item(f"{job} same bits", self.same_bits(job))
        item("summarization ddp same bits", self.same_bits("summarization", "strategy.plugin=ddp"))
        item("summarization sharded 3 same bits", self.same_bits("summarization", "strategy.plugin=sharded", "strategy.zero_stage=3"))
        item("evaluate, predict, export", self.other_verbs)
        item("plan, memory, use, profile", self.watching)
        item("a micro-batch that is too large", self.too_large)
        item("a hidden device", self.hidden_device)
        item("two ranks on one device", self.two_ranks_on_one_device)
        for strategy, sets in (("ddp", []), ("sharded", ["strategy.zero_stage=1"]), ("sharded", ["strategy.zero_stage=2"]), ("sharded", ["strategy.zero_stage=3"])):
            item(f"{strategy} {''.join(sets)[-1:]} on several devices", self.several_devices(strategy, *sets))
        item("waits per step", self.waits)
        item("memory errors", self.memory_errors)

    def second_part(self):
        self.record.item("libraries", self.libraries)
        for batch in (16, 8, 64):
            self.record.item(f"gpt-2, {batch} x 1024", self.gpt2("--batch", str(batch)))
        self.record.item("gpt-2, dropout 0.1", self.gpt2("--batch", "16", "--dropout", "0.1"))
        self.record.item("gpt-2, summaries only", self.gpt2("--batch", "16", "--summaries"))
        self.record.item("gpt-2's kernels", self.kernels)

    def third_part(self):
        self.record.item("libraries", self.libraries)
        self.record.item("esm-2 35M", self.protein_model("esm2-35M", "--batch", "16"))
        self.record.item("esm-2 8M", self.protein_model("esm2-8M", "--batch", "16"))
        self.record.item("protein encoder-decoder", self.protein_model("encoder-decoder", "--batch", "16"))


def run(out, part):
    out.mkdir(parents=True, exist_ok=True)
    name = f"gpu-check-{part}" if part else "gpu-check"
    check = Check(out, name)
    if not check.devices:
        print("gpu-check: nvidia-smi finds no device: a rehearsal on the CPU", flush=True)
    try:
        for which, run_part in (("first", check.first_part), ("second", check.second_part), ("third", check.third_part)):
            if part in (None, which):
                run_part()
    finally:
        shutil.rmtree(check.work, ignore_errors=True)
        text = table(check.record.content)
        (out / f"{name}.txt").write_text(text + "\n")
        print(text)
    return 1 if check.record.verdict("failed") else 0
