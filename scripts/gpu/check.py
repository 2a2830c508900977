"""gpu-check run: everything that needs a device, cheap and fatal first. Each item is independent: what fails does not stop the rest, and
on a real device several run at a time, except those that time something or take all of its memory.

Without a device (a rehearsal) the items run on the emulated one of tests/cuda/emulator as far as they can, benchmarks with tiny jobs on the
CPU, and those that need a real one are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from device_kernels import figures_of as kernel_figures
from device_kernels import kernels_of_step, write_table
from record import Record, Skipped, table
from runs import JOBS, UNEVALUATED, Runner, largest_difference

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / ".gpu"
EMULATED = ROOT / "build/release/tests/emulator/torch/lib"
BENCH = ROOT / "scripts" / "bench"
# How far a dozen steps may be from the CPU in float32: in losses, which hardly move in so few, and in norms of gradients. On the emulated
# device bf16 and fp16 differ by up to 0.004 and 0.005, and where the device draws masks of its own (WITH_DROPOUT) norms by up to 0.05.
BANDS = {"fp32": (1e-4, 1e-3), "bf16": (0.01, 0.02), "fp16": (0.01, 0.02)}
WITH_DROPOUT, NORMS_WITH_DROPOUT = ("summarization-dropout", "protein"), 0.15
PART_SECONDS = 575  # of the ten minutes that a command has where devices are lent; what finds no time left is skipped
AT_A_TIME = 6  # processes on one device: most of a short run is its start, on one core; in a rehearsal 2
GPT2_124M = ["task.language.num_hidden_layers=12", "task.language.num_attention_heads=12", "task.language.hidden_size=768"]
# A benchmark's options in a rehearsal, beside its own.
REHEARSAL = {
    "gpt2_cuda.py": "--device cpu --layers 2 --heads 2 --width 128 --most 128 --batch 4 --turns 1 --steps 2".split(),
    "protein_side_by_side.py": "--device cpu --device-turns --batch 4 --turns 1 --steps 2".split(),
    "language_cuda.py": "--model tiny --device cpu --most 128 --batch 2 --turns 1 --steps 2".split(),
    "embeddings_side_by_side.py": "--device cpu --precision fp32 --proteins 16 --turns 1".split(),
    "sameness.py": "--device cpu --small --turns 1 --steps 1".split(),
}


def shell(*command, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **more)
    assert result.returncode == 0, f"{command[0]} ended with {result.returncode}\n{(result.stdout + result.stderr)[-3000:]}"
    return result.stdout + result.stderr


def figures_of(text):
    """Of a benchmark: its last line of JSON. Warnings of libraries may come after it."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    assert lines, f"there are no figures\n{text[-2000:]}"
    return json.loads(lines[-1])


class Reference:
    """A job's losses and the norms of its gradients on the CPU in float32, found when first asked for."""

    def __init__(self, job, runner):
        self.job, self.runner, self.lock, self.found = job, runner, Lock(), None

    def curves(self):
        with self.lock:
            if not self.found:
                name = f"{self.job}-cpu"
                losses = self.runner.train(self.job, name, "train.precision=fp32", "run.device=cpu")
                self.found = losses, self.runner.norms(name)
            return self.found


class Check:
    def __init__(self, out, name, seconds, only):
        self.packed = json.loads((GPU / "pack.json").read_text())
        self.devices = self.nvidia_smi()
        self.record = Record(out / f"{name}.json", {"device": self.devices[0] if self.devices else "emulated", "pack": self.packed["commit"]})
        self.out, self.only = out, re.compile(only)
        self.work = Path(tempfile.mkdtemp(prefix="gpu-check-"))
        (self.work / "data").symlink_to(GPU / "data")
        self.environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        if not self.devices:
            self.environment["FAKE_CUDA_GIB"] = "8"
        self.runner = Runner(str(GPU / "prefix/bin/pipeline"), ROOT / "configs", self.work, self.environment,
                             seconds if self.devices else float("inf"))
        self.references = {job: Reference(job, self.runner) for job in JOBS}

    @staticmethod
    def nvidia_smi():
        try:
            return shell("nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader").strip().splitlines()
        except (AssertionError, FileNotFoundError):
            return []

    def item(self, name, check):
        def in_time(figures):
            if self.runner.seconds_left() < 5:
                raise Skipped("no time is left")
            return check(figures)

        if self.only.search(name):
            self.record.item(name, in_time)

    def together(self, *items):
        """Of pairs (name, check), as many at a time as the device takes."""
        with ThreadPoolExecutor(AT_A_TIME if self.devices else 2) as pool:
            for done in [pool.submit(self.item, *item) for item in items]:
                done.result()

    def needs_device(self, count=1):
        if len(self.devices) < count:
            raise Skipped(f"needs {count} devices, {len(self.devices)} here" if count > 1 else "needs a real device")

    # 0. What is here.

    def libraries(self, figures):
        """Finds LibTorch where Python has it, puts links where the programs look, and loads each of them."""
        try:
            import torch
        except ModuleNotFoundError:
            raise AssertionError(f"{sys.executable} has no torch: run this with the Python that has torch 2.11.0+cu130") from None

        site = Path(torch.__path__[0]).parent
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipeline"
        if not any(cache.glob("torch-*/torch")):
            shell(ROOT / "scripts/setup/torch", "--from", site)
        linked = next(cache.glob("torch-*/torch")).parent
        # CUPTI's folder: list_kernels.so, which links it, is loaded with the driver, before LibTorch brings it.
        folders = [GPU / "lib", linked / "torch/lib", linked / "nvidia/cu13/lib", os.environ.get("LD_LIBRARY_PATH")]
        self.libraries_of_torch = ":".join(str(folder) for folder in folders if folder)
        self.environment["LD_LIBRARY_PATH"] = self.libraries_of_torch if self.devices else f"{EMULATED}:{self.libraries_of_torch}"
        build = Path(self.packed["build"])  # the tests look for plugins there
        if not build.exists():
            build.parent.mkdir(parents=True, exist_ok=True)
            build.symlink_to(GPU / "prefix")
        files = [p for part in ("prefix", "lib") for p in (GPU / part).rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
        missing = []
        for path in files:
            found = shell("ldd", path, env=self.environment)
            missing += [f"{path.name}: {name}" for name in re.findall(r"(\S+) => not found", found)]
        assert not missing, "\n".join(missing)
        figures["programs"] = len(files)
        return f"torch {torch.__version__}"

    def devices_and_plugins(self, figures):
        text = self.runner.output([self.runner.program, "devices"])
        assert "cuda:0" in text, text
        plugins = self.runner.output([self.runner.program, "plugins"])
        for name in ("summarization", "protein", "single", "ddp", "sharded", "nccl"):
            assert re.search(rf"\b{name}\b", plugins), f"{name} is not among the plugins:\n{plugins}"
        figures["devices"] = len(self.devices)
        return next((text_line for text_line in text.splitlines() if text_line.startswith("cuda")), "")

    def ceilings(self, figures):
        self.needs_device()
        figures.update(figures_of(self.runner.output([sys.executable, Path(__file__).with_name("ceilings.py")])))

    # 1 and 2. Operations and strategies.

    def tests(self, program, which="*", emulated=True):
        """Its log is named after the program and the first word of the filter."""
        name = "-".join([program, *re.findall(r"\w+", which)[:1]])

        def check(figures):
            if not emulated:
                self.needs_device()
            report = self.work / f"{name}.json"
            process = self.runner.start([GPU / "prefix/tests/bin" / program, f"--gtest_filter={which}", f"--gtest_output=json:{report}"])
            text = self.runner.finish(process)
            (self.out / f"{name}.log").write_text(text)
            assert report.exists(), f"ended with {process.returncode}\n{text[-2000:]}"
            tests = [t for suite in json.loads(report.read_text())["testsuites"] for t in suite["testsuite"]]
            failed = [f"{t['classname']}.{t['name']}: {t['failures'][0]['failure'][:300]}" for t in tests if "failures" in t]
            skipped = sum(t.get("result") == "SKIPPED" for t in tests)
            figures.update(passed=len(tests) - len(failed) - skipped, failed=len(failed), skipped=skipped)
            assert not failed, "\n".join(failed)
            assert not skipped or program != "cuda_test", "tests were skipped where there is a device"
            assert process.returncode == 0, f"ended with {process.returncode}"

        return check

    # 3. Runs.

    def curve(self, job, precision, *sets):
        def check(figures):
            name = f"{job}-{precision}"
            losses = self.runner.train(job, name, f"train.precision={precision}", *sets)
            norms, (losses_there, norms_there) = self.runner.norms(name), self.references[job].curves()
            figures.update({"losses": largest_difference(losses, losses_there), "norms": largest_difference(norms, norms_there)})
            of_losses, of_norms = BANDS[precision]
            if job in WITH_DROPOUT and precision != "fp32":
                of_norms = NORMS_WITH_DROPOUT
            assert figures["losses"] <= of_losses, f"more than {of_losses}: {losses} and {losses_there}"
            assert figures["norms"] <= of_norms, f"norms, more than {of_norms}: {norms} and {norms_there}"

        return check

    def same_bits(self, job, *sets):
        """Twice, killed and continued, and with activations computed again."""

        def check(figures):
            fixed, here = ["run.reproducible=true", *sets], "-".join(["same", job, *(one.rpartition("=")[2] for one in sets)])
            self.runner.train(job, f"{here}/once", *fixed)
            self.runner.train(job, f"{here}/twice", *fixed)
            killed = self.runner.killed_and_continued(job, f"{here}/killed", *fixed)
            self.runner.train(job, f"{here}/recomputed", *fixed, "train.activation_checkpointing=true")
            wanted = self.runner.weights(f"{here}/once")
            assert wanted, "there is no checkpoint"
            different = [name for name in ("twice", "killed", "recomputed") if self.runner.weights(f"{here}/{name}") != wanted]
            assert not different, f"other bits: {', '.join(different)}"
            figures["bytes"] = sum(map(len, wanted.values()))
            return "" if killed else "not killed: it had ended by then"

        return check

    def other_verbs(self, figures):
        self.runner.train("summarization", "verbs", "evaluate.at_end=true")
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
        measured = rank["device_memory"]
        figures.update({"planned/measured": planned / measured, "predicted/measured": rank["predicted_memory"] / measured})
        events = json.loads((self.runner.folder("watched") / "profile/trace.json").read_text())["traceEvents"]
        figures["events"] = len(events)
        self.runner.train("summarization", "found", "train.global_batch=64", 'train.micro_batch="auto"')
        assert 0.9 <= figures["planned/measured"] <= 1.1, figures
        assert 0.9 <= figures["predicted/measured"] <= 1.1, figures
        if self.devices:
            assert any(event.get("cat") == "kernel" for event in events), "no kernel in the trace"
            told = {name: rank[name] for name in ("device_utilisation", "driver_memory") if name in rank}
            figures.update(told)
            return "" if len(told) == 2 else "NVML does not tell everything of this device, or the run was too short for it"

    def too_large(self, figures):
        # 930,000 tokens, and for each of 64 layers at least 9 rows of 256 of each, in bf16: 270 GB; but 51 M parameters, soon initialised.
        samples = 8192 if self.devices else 256
        huge = ["task.language.hidden_size=256", "task.language.num_hidden_layers=64", "task.language.max_position_embeddings=1024",
                "task.sequence.max_tokens=1024",
                f"train.global_batch={samples}", f"train.micro_batch={samples}", "train.max_steps=2", *UNEVALUATED]
        process = self.runner.start([*self.runner.command("run", "summarization", "huge", *huge), "--fresh"])
        text = self.runner.finish(process)
        assert process.returncode not in (0, 139, -11), text[-2000:]
        assert "out of memory" in text and "micro_batch" in text, text[-2000:]
        return text.strip().splitlines()[-1]

    def hidden_device(self, figures):
        text = self.runner.output([*self.runner.command("run", "template", "hidden", "train.max_steps=2", "run.device=auto"), "--fresh"],
                                  CUDA_VISIBLE_DEVICES="")
        assert re.search(r"^device +cpu", text, re.M), text[-1000:]

    # 4. Several ranks.

    def two_ranks_on_one_device(self, figures):
        command = self.runner.command("run", "template", "two", "train.max_steps=2", f"launch.processes={max(1, len(self.devices)) + 1}")
        process = self.runner.start([*command, "--fresh"])
        text = self.runner.finish(process, 120)
        assert process.returncode == 2 and "need a CUDA device each" in text, f"{process.returncode}: {text[-1000:]}"
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
        counts, counter = [], {"LD_PRELOAD": str(GPU / "lib/count_waits.so")} if self.devices else {}  # the emulated one counts by itself
        for steps in (20, 40):
            file = self.work / f"waits-{steps}"
            self.runner.train("summarization", "waits", steps=steps, COUNT_WAITS=str(file), **counter)
            counts.append({name: int(count) for name, count in (line.split() for line in file.read_text().splitlines())})
        figures.update({name: (counts[1][name] - counts[0][name]) / 20 for name in counts[0]})
        assert figures["cudaEventSynchronize"] <= 1 and figures["cudaStreamSynchronize"] == 0 and figures["cudaDeviceSynchronize"] == 0, figures
        assert figures["cudaMemcpy"] == 0, figures

    def memory_errors(self, figures):
        self.needs_device()
        tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not Path(tool).exists():
            raise Skipped("compute-sanitizer is not here")
        run = self.runner.command("run", "summarization", "sanitized", "train.max_steps=3", *UNEVALUATED)
        tests = [GPU / "prefix/tests/bin/cuda_test", "--gtest_filter=*/Kernels.*"]
        found, codes = [], []
        # Not errors that the driver returns: LibTorch tries kinds of memory that not every machine has.
        for kind, command in {"memcheck": [*run, "--fresh"], "racecheck": tests, "synccheck": tests}.items():
            process = self.runner.start([tool, f"--tool={kind}", "--report-api-errors=no", "--error-exitcode=99", "--print-limit=20", *command])
            text = self.runner.finish(process)
            (self.out / f"{kind}.log").write_text(text)
            codes.append(process.returncode)
            found += [f"{kind}: {line.strip('= ')}" for line in text.splitlines() if "SUMMARY" in line]
        assert not any(codes), f"ended with {codes}: {'; '.join(found)}"
        return "; ".join(found)

    # 6. Speed.

    def beside_peer(self, script, *arguments):
        """A benchmark's figures. Both begin with the same weights and the same examples, so their losses differ by rounding alone."""

        def check(figures):
            small = [] if self.devices else REHEARSAL[script]
            process = self.runner.start([sys.executable, BENCH / script, *arguments, "--pipeline", self.runner.program, *small],
                                        LD_LIBRARY_PATH=self.libraries_of_torch)
            text = self.runner.finish(process)
            figures.update(figures_of(text))
            assert process.returncode == 0, f"ended with {process.returncode}\n{text[-2000:]}"
            for which in ("first", "last"):
                if f"peer's {which} loss" in figures:
                    ratio = figures[f"{which} loss"] / figures[f"peer's {which} loss"]
                    assert abs(ratio - 1) <= 1e-2, f"the {which} losses are too far apart"

        return check

    def gpt2(self, *arguments):
        return self.beside_peer("gpt2_cuda.py", "--vocabulary", GPU / "data/gpt2", *arguments)

    def language(self, *arguments):
        kernels = ["--kernels", self.out, "--probe", GPU / "lib/list_kernels.so"] if self.devices else []
        return self.beside_peer("language_cuda.py", "--vocabulary", GPU / "data/gpt2", *kernels, *arguments)

    def embeddings(self, model):
        return self.beside_peer("embeddings_side_by_side.py", model, "--device", "cuda", "--precision", "bf16", "--json", "--proteins", "1024",
                                "--batch", "32", "--turns", "3")

    def sameness(self, figures):
        """What run.reproducible costs: the ratio of the times of a step."""
        self.beside_peer("sameness.py", "--device", "cuda", "--configs", ROOT / "configs", "--data", GPU / "data", "--turns", "3", "--steps",
                         "6")(figures)

    def protein(self, model):
        return self.beside_peer("protein_side_by_side.py", model, "--plugins", GPU / "prefix/tests/plugins", "--configs", ROOT / "configs",
                                "--structures", GPU / "data/protein-structures", "--device", "cuda", "--precision", "bf16", "--json",
                                "--batch", "16", "--turns", "3", "--steps", "60")

    def kernels(self, file_name, tokens, batch, *sets):
        """What the device did in a step of a language model from scratch, full sequences."""

        def check(figures):
            self.needs_device()
            pairs = [json.loads(text) for text in (GPU / "data/debian-descriptions/train.jsonl").read_text().splitlines()]
            each = 50 * tokens // 1024
            documents = ["\n".join(pair["document"] for pair in pairs[i : i + each]) for i in range(0, len(pairs), each)]
            (self.work / "long.jsonl").write_text("".join(json.dumps({"document": text, "summary": "Long"}) + "\n" for text in documents))
            shape = [f"task.language.max_position_embeddings={tokens}", f"task.sequence.max_tokens={tokens}",
                     f"task.tokenizer.path={GPU / 'data/gpt2'}", "task.data.train=long.jsonl", f"train.global_batch={batch}",
                     f"train.micro_batch={batch}", "train.precision=bf16", *sets]
            per_step = kernels_of_step(
                lambda steps, environment: self.runner.train("summarization", "kernels", *shape, steps=steps, **environment),
                GPU / "lib/list_kernels.so", self.work)
            write_table(per_step, self.out / file_name)
            figures.update(kernel_figures(per_step))
            return "; ".join(f"{time / 1000:.2f} ms {name[:60]}" for name, (time, _) in list(per_step.items())[:5])

        return check

    def first_part(self):
        self.item("devices and plugins", self.devices_and_plugins)
        self.item("ceilings", self.ceilings)
        # Our own kernels apart: what one breaks on a device stays broken in its process.
        self.together(
            ("operations and strategies", self.tests("cuda_test", "-*/Kernels.*:Emulator.*")),
            ("our kernels", self.tests("cuda_test", "*/Kernels.*")),
            ("nccl", self.tests("backends_test", "Nccl.*", emulated=False)),
            *((f"{job} fp32", self.curve(job, "fp32")) for job in JOBS),
            ("waits per step", self.waits),
            *((f"{job} {precision}", self.curve(job, precision)) for job in JOBS for precision in ("bf16", "fp16")),
        )

    def second_part(self):
        self.together(
            ("a hidden device", self.hidden_device),
            ("two ranks on one device", self.two_ranks_on_one_device),
            ("evaluate, predict, export", self.other_verbs),
            *((f"{job} same bits", self.same_bits(job))
              for job in ("summarization-dropout", "summarization-summary", "protein", "esm2", "vlm", "vlm-frozen")),
            ("summarization same bits", self.same_bits("summarization")),
            ("summarization ddp same bits", self.same_bits("summarization", "strategy.plugin=ddp")),
            ("summarization sharded 3 same bits", self.same_bits("summarization", "strategy.plugin=sharded", "strategy.zero_stage=3")),
            ("memory errors", self.memory_errors),
        )
        self.item("plan, memory, use, profile", self.watching)
        self.item("a micro-batch that is too large", self.too_large)
        for name in ("ddp", "sharded 1", "sharded 2", "sharded 3"):
            strategy, *stages = name.split()
            self.item(f"{name} on several devices", self.several_devices(strategy, *(f"strategy.zero_stage={stage}" for stage in stages)))

    def third_part(self):
        """Compiling the peer takes 60 to 90 s each time, and an item 20 to 30 s more: the last ones may find no time left."""
        self.item("gpt-2, 16 x 1024", self.gpt2("--batch", "16", "--steps", "20"))
        self.item("gpt-2's kernels", self.kernels("kernels.csv", 1024, 16, *GPT2_124M))
        self.item("gpt-2, 8 x 1024", self.gpt2("--batch", "8", "--steps", "30"))
        self.item("gpt-2, summaries only", self.gpt2("--batch", "16", "--steps", "20", "--summaries"))
        self.item("gpt-2, dropout 0.1", self.gpt2("--batch", "16", "--steps", "20", "--dropout", "0.1"))
        self.item("gpt-2, 64 x 1024", self.gpt2("--batch", "64", "--steps", "8"))

    def fourth_part(self):
        self.item("esm-2 35M", self.protein("esm2-35M"))
        self.item("esm-2 8M", self.protein("esm2-8M"))
        self.item("protein encoder-decoder", self.protein("encoder-decoder"))

    def fifth_part(self):
        """Making the weights of 8 billion parameters and reading them twice takes a minute or two of each item."""
        self.item("llama 1b, 2 x 4096", self.language("--model", "llama-1b", "--batch", "2"))
        lora = ["--lora", "16", "--recompute", "--batch", "2", "--steps", "4", "--frozen", "auto", "nf4"]
        self.item("llama 8b, lora", self.language("--model", "llama-8b", *lora))
        self.item("qwen2.5 7b, lora", self.language("--model", "qwen2.5-7b", *lora))

    def sixth_part(self):
        model = "esm2-650M" if self.devices else "esm2-8M"
        self.item("esm-2 650M", self.protein(model))
        self.item("esm-2 650M, vectors", self.embeddings(model))
        self.item("what sameness costs", self.sameness)


def run(out, part, seconds, only):
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    name = f"gpu-check-{part}" if part else "gpu-check"
    check = Check(out, name, seconds or (PART_SECONDS if part else float("inf")), f"^libraries$|{only}")
    if not check.devices:
        print("gpu-check: nvidia-smi finds no device: a rehearsal on an emulated one", flush=True)
    parts = {"first": check.first_part, "second": check.second_part, "third": check.third_part, "fourth": check.fourth_part,
             "fifth": check.fifth_part, "sixth": check.sixth_part}
    try:
        check.item("libraries", check.libraries)
        if check.record.verdict("failed"):
            parts = {}  # nothing else can run
        for which, run_part in parts.items():
            if part in (None, which):
                run_part()
    finally:
        shutil.rmtree(check.work, ignore_errors=True)
        text = table(check.record.content)
        (out / f"{name}.txt").write_text(text + "\n")
        print(text)
    return 1 if check.record.verdict("failed") else 0
