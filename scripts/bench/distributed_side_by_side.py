"""GPT-2 on several processes of one host: `pipeline run` under single, ddp and sharded beside PyTorch's DistributedDataParallel,
ZeroRedundancyOptimizer and FSDP2 over Gloo (distributed_peer.py). See scripts/bench/distributed.

Memory is read from /proc, of every rank, while steps run: the peak of the resident size (the kernel's own VmHWM), which counts shared memory in each
process that touched it, and the largest proportional size (Pss) seen, which divides it among them.
"""

import argparse
import json
import os
import random
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpt2_side_by_side import Examples, config_of, make_model

MIB = 2**20
OURS = {"single": ["strategy.plugin=single"],
        "ddp": ["strategy.plugin=ddp"],
        **{f"sharded {stage}": ["strategy.plugin=sharded", f"strategy.zero_stage={stage}"] for stage in (1, 2, 3)}}
THEIRS = {"PyTorch, one process": "single", "PyTorch DDP": "ddp", "DDP + ZeroRedundancyOptimizer": "zero",
          "FSDP2, reshard_after_forward=False": "fsdp2-keep", "FSDP2": "fsdp2"}
ONE = ("single", "PyTorch, one process")
# Bytes for each parameter, as plugins/strategies/*/README.md have them: weights (and masters), gradients and AdamW's moments.
STATES = {"fp32": {"sharded 1": lambda n: 8 + 8 / n, "sharded 2": lambda n: 4 + 12 / n, "sharded 3": lambda n: 16 / n},
          "bf16": {"sharded 1": lambda n: 6 + 12 / n, "sharded 2": lambda n: 2 + 16 / n, "sharded 3": lambda n: 16 / n}}
WHOLE = {"fp32": 16, "bf16": 18}


def states(name, processes, arguments):
    """Bytes of a rank by the formulas. With one micro-batch a step stage 1 keeps no more gradients than stage 2."""
    if processes == 1:
        return WHOLE[arguments.precision] * parameters(arguments)
    if name == "sharded 1" and arguments.micro_batches == 1:
        name = "sharded 2"
    return STATES[arguments.precision].get(name, lambda n: WHOLE[arguments.precision])(processes) * parameters(arguments)


def buffers(name, processes, arguments):
    """Bytes of a rank besides, by the list in plugins/strategies/sharded/README.md."""
    if not name.startswith("sharded") or processes == 1:
        return 0
    each = 4 if arguments.precision == "fp32" else 2
    embedding, bucket = 50257 * arguments.width, 8 * MIB
    # One process makes a narrow gradient float32 before it adds the next, and has the largest in both forms for a moment.
    elsewhere = 2 * embedding if arguments.precision == "bf16" else 0
    if name != "sharded 3":
        return each * embedding - elsewhere + 3 * bucket * (2 - 1 / processes)
    # The slots: unit 0, which has the embeddings, and two blocks. It is largest at the head, where no bucket is in flight yet.
    block = 12 * arguments.width**2 + 13 * arguments.width
    return -elsewhere + each * (embedding + embedding + 1026 * arguments.width + 2 * block)


def proc(pid, file):
    """The kB figures of a file below /proc/PID, in bytes."""
    lines = (line.split() for line in Path(f"/proc/{pid}/{file}").read_text().splitlines())
    return {words[0][:-1]: int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


class Course:
    """Processes that train together. Subclasses: `process`, `ranks()`, `run_to(step)`, `seconds()` and `losses()` of the steps so far."""

    def measure_memory(self, first, last):
        """Of each rank, the peaks between two steps."""
        self.run_to(first)
        pids = self.ranks()
        for pid in pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # forgets the peak of loading
        peaks = [{"Pss": 0, "RssAnon": 0, "RssShmem": 0, "RssFile": 0} for _ in pids]
        while not self.has_reached(last):
            for pid, peak in zip(pids, peaks):
                now = proc(pid, "smaps_rollup") | proc(pid, "status")
                for key in peak:
                    peak[key] = max(peak[key], now[key])
            time.sleep(0.1)
        for pid, peak in zip(pids, peaks):
            peak["Rss"] = proc(pid, "status")["VmHWM"]
        return peaks

    def run_to(self, step):
        while not self.has_reached(step):
            time.sleep(0.005)


# Runs a command where all that processes send each other passes a link of so many bits a second.
SLOW_LINK = ["unshare", "--net", "sh", "-c",
             'ip link set lo up && tc qdisc add dev lo root tbf rate "$1" burst 1mb latency 100ms && shift && exec "$@"', "sh"]


class Ours(Course):
    def __init__(self, name, folder, processes, arguments, rate=None):
        run = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
        self.log, self.metrics = run / "console.log", run / "run" / "metrics.jsonl"
        settings = [*OURS[name], f"launch.processes={processes}", f"run.dir={run / 'run'}", *arguments.set]
        if processes > 1:
            settings.append(f"backend.plugin={arguments.backend}")
        command = [arguments.pipeline, "run", "bench.toml"] + [word for setting in settings for word in ("--set", setting)]
        if rate:
            command = [*SLOW_LINK, f"{rate:.0f}bit", *command]
        self.process = subprocess.Popen(command, cwd=folder, stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        self.processes = processes

    def ranks(self):
        if self.processes == 1:
            return [self.process.pid]
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        pids = [int(pid) for task in tasks for pid in task.read_text().split()]
        assert len(pids) == self.processes, f"{self.processes} ranks expected, {len(pids)} children found"
        return pids

    def steps(self):
        return [json.loads(line) for line in self.metrics.read_text().splitlines()] if self.metrics.exists() else []

    def has_reached(self, step):
        if self.process.poll() is not None:
            raise SystemExit(f"pipeline ended with {self.process.returncode}\n{self.log.read_text()[-2000:]}")
        return len(self.steps()) >= step

    def seconds(self):
        return [step["seconds"] for step in self.steps()]

    def losses(self):
        return [step["loss"] for step in self.steps()]

    def close(self):
        ranks = self.ranks()
        self.process.send_signal(signal.SIGKILL)  # the ranks end with it
        self.process.wait()
        while any(Path(f"/proc/{pid}").exists() for pid in ranks):
            time.sleep(0.01)


class Theirs(Course):
    def __init__(self, name, folder, processes, arguments):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, str(Path(__file__).with_name("distributed_peer.py")), "--kind", THEIRS[name], "--model", str(folder / "model"),
                   "--examples", str(folder / "tokens.jsonl"), "--batch", str(arguments.batch), "--micro-batch", str(arguments.micro_batch),
                   "--threads", str(arguments.threads)]
        place = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
        self.name, self.asked, self.answers = name, 0, []
        self.workers = [subprocess.Popen(command, env=os.environ | place | {"RANK": str(rank)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True) for rank in range(processes)]

    def ranks(self):
        return [worker.pid for worker in self.workers]

    def ask(self):
        for worker in self.workers:
            worker.stdin.write("1\n")
            worker.stdin.flush()
        self.asked += 1

    def has_reached(self, step):
        if len(self.answers) >= step:
            return True
        if self.asked == len(self.answers):
            self.ask()
        answers = self.workers[0].stdout
        if select.select([answers], [], [], 0)[0] and (line := answers.readline()):
            self.answers.append(json.loads(line))
        for worker in self.workers:
            if worker.poll() is not None:
                raise SystemExit(f"{self.name} ended with {worker.returncode}")
        return len(self.answers) >= step

    def seconds(self):
        return [answer["seconds"][0] for answer in self.answers]

    def losses(self):
        return [answer["losses"][0] for answer in self.answers]

    def close(self):
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()


def start(name, folder, processes, arguments):
    return (Ours if name in OURS else Theirs)(name, folder, processes, arguments)


def write_config(folder, arguments):
    # The run is ended from outside.
    train = f'precision = "{arguments.precision}"\nmicro_batch = {arguments.micro_batch}\nmax_steps = 1000000'
    (folder / "bench.toml").write_text(config_of(arguments, "model", arguments.most + 1, arguments.what == "memory", train))


def write_examples(folder, arguments, count):
    pairs = [json.loads(line) for line in arguments.pairs.read_text().splitlines()]
    random.Random(0).shuffle(pairs)
    maker = Examples(folder / "model", arguments.most + 1)  # the end of text is a target, not an input
    full = arguments.what == "memory"
    examples = maker.language_model(pairs, count) if full else maker.summarization(pairs, count, grouped=False)
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair, _ in examples))
    # A loss over all tokens has no prompt to leave out.
    (folder / "tokens.jsonl").write_text("".join(json.dumps(e | ({"prompt": 0} if full else {})) + "\n" for _, e in examples))


def parameters(arguments):
    width = arguments.width
    return (50257 + 1024) * width + arguments.layers * (12 * width * width + 13 * width) + 2 * width


def print_memory(names, processes, results, arguments):
    """`expected`: one process, less what the formulas say that a rank holds less of the states, and the buffers; what is the same in all, such
    as activations and libraries, cancels out."""
    print(f"\n{processes} processes, {parameters(arguments) / 1e6:.1f} million parameters in {arguments.precision}, micro-batches a step: "
          f"{arguments.micro_batches}; MiB; of the ranks the largest, and behind it the smallest")
    print(f"{'':36} {'resident':>15} {'Pss':>7} {'files':>7} {'shm':>5} {'to one process':>15} {'formula':>8} {'buffers':>8} {'expected':>9} {'off':>7}")
    for name in names:
        ranks, single = results[name], results[ONE[0] if name in OURS else ONE[1]]
        of = {key: max(rank[key] for rank in ranks) / MIB for key in ranks[0]}
        one = max(rank["Rss"] for rank in single) / MIB
        line = (f"{name:36} {of['Rss']:7.0f} {min(r['Rss'] for r in ranks) / MIB:7.0f} {of['Pss']:7.0f} {of['RssFile']:7.0f} {of['RssShmem']:5.0f} "
                f"{of['Rss'] - one:15.0f}")
        if name in OURS:
            formula = (states(name, len(ranks), arguments) - states(name, 1, arguments)) / MIB
            extra = buffers(name, len(ranks), arguments) / MIB
            expected = one + formula + extra
            line += f" {formula:8.0f} {extra:8.0f} {expected:9.0f} {100 * (of['Rss'] / expected - 1):+6.1f}%"
        print(line, flush=True)


def memory(folder, arguments, processes):
    arguments.micro_batch, results = 1, {}
    for name in arguments.only:
        ranks = 1 if name in ONE else processes
        arguments.batch = ranks * arguments.micro_batches  # one process does what each of many does
        write_config(folder, arguments)
        course = start(name, folder, ranks, arguments)
        try:
            results[name] = course.measure_memory(arguments.warm_up, arguments.warm_up + arguments.steps)
            print(f"  {name}: {json.dumps([{k: round(v / MIB) for k, v in rank.items()} for rank in results[name]])}", flush=True)
        finally:
            course.close()
    print_memory(arguments.only, processes, results, arguments)


def speed(folder, arguments, processes):
    """In turns: each starts, learns for some steps, and is timed for some more."""
    write_config(folder, arguments)
    seconds, losses = {name: [] for name in arguments.only}, {}
    for turn in range(arguments.turns):
        for name in arguments.only if turn % 2 == 0 else reversed(arguments.only):
            course = start(name, folder, processes, arguments)
            try:
                course.run_to(arguments.warm_up + arguments.steps)
                seconds[name].append(statistics.mean(course.seconds()[arguments.warm_up:][:arguments.steps]))
                losses[name] = course.losses()[:arguments.warm_up + arguments.steps]
            finally:
                course.close()
    first = arguments.only[0]
    print(f"\n{processes} processes with {arguments.threads} thread(s), {arguments.batch} examples a step, {arguments.micro_batch} at a time; "
          f"end to end, seconds a step")
    for name in arguments.only:
        apart = max(abs(a / b - 1) for a, b in zip(losses[name], losses[first]))
        ratios = [a / b for a, b in zip(seconds[name], seconds[first])]
        print(f"{name:36} {statistics.median(seconds[name]):7.3f}  {statistics.median(ratios):6.3f} times {first} "
              f"(turns: {' '.join(f'{ratio:.2f}' for ratio in ratios)}); losses differ by at most {apart:.1e}", flush=True)


def overlap(folder, arguments, processes):
    """On a link on which sending everything after the computation takes `share` of the step: that, and with overlap, in turns."""
    write_config(folder, arguments)

    def seconds(name, overlaps, rate):
        chosen = argparse.Namespace(**{**vars(arguments), "backend": "gloo" if rate else "auto",
                                       "set": [*arguments.set, f"strategy.overlap={str(overlaps).lower()}"]})
        course = Ours(name, folder, processes, chosen, rate)
        try:
            course.run_to(arguments.warm_up + arguments.steps)
            return statistics.mean(course.seconds()[arguments.warm_up:][:arguments.steps])
        finally:
            course.close()

    sent = 8 * 2 * (processes - 1) * 4 * parameters(arguments)  # bits of all ranks in a step: gradients in float32, and sums or weights
    print(f"\n{processes} processes with {arguments.threads} thread(s), {arguments.batch} examples a step, over gloo on a slow link; seconds a step")
    for name in arguments.only:
        free = seconds(name, False, None)  # shared memory: next to nothing but the computation
        rate = sent / (free * arguments.share / (1 - arguments.share))
        without, overlapped = [], []
        for _ in range(arguments.turns):
            without.append(seconds(name, False, rate))
            overlapped.append(seconds(name, True, rate))
        ratios = [a / b for a, b in zip(without, overlapped)]
        print(f"{name:12} link of {rate / 1e9:.2f} Gbit/s; shared memory {free:.3f}, on it {statistics.median(without):.3f} (sending takes "
              f"{1 - free / statistics.median(without):.0%}), with overlap {statistics.median(overlapped):.3f}: "
              f"{statistics.median(ratios):.2f} times as fast (turns: {' '.join(f'{ratio:.2f}' for ratio in ratios)})", flush=True)


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench/distributed", description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["memory", "speed", "overlap"])
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, nargs="+", help="(2 4 for memory, 2 for speed)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of: {', '.join(repr(name) for name in [*OURS, *THEIRS])}")
    parser.add_argument("--python", action="store_true", help="ours is a task in Python, causal_lm_task.py, with the peers' model")
    parser.add_argument("--backend", default="auto", help="of ours (auto); theirs is always Gloo")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of ours, strategy.bucket_mib=4")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--most", type=int, default=256, help="tokens per example")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="of ours; theirs is always fp32")
    parser.add_argument("--micro-batches", type=int, default=1, help="memory: of a process in a step, of one example each")
    parser.add_argument("--batch", type=int, default=8, help="speed: examples per step, of all processes")
    parser.add_argument("--micro-batch", type=int, default=4, help="speed: examples at a time")
    parser.add_argument("--share", type=float, default=0.3, help="overlap: of a step without overlap that sending takes")
    parser.add_argument("--turns", type=int, default=4, help="speed")
    parser.add_argument("--warm-up", type=int, default=3, help="steps before it counts")
    parser.add_argument("--steps", type=int, default=5, help="that count")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    arguments = parser.parse_args()
    # One process has nothing to share out, so it has no place in the comparison of speed.
    choice = [name for name in [*OURS, *THEIRS] if arguments.what == "memory" or name not in ONE]
    if arguments.what == "overlap":
        choice = [name for name in OURS if name not in ONE]
        if os.geteuid() != 0 or not shutil.which("tc"):
            parser.error("overlap slows a link down, which needs root and tc (package iproute2)")
    arguments.only = arguments.only or (["ddp", "sharded 2"] if arguments.what == "overlap" else choice)
    if unknown := [name for name in arguments.only if name not in choice]:
        parser.error(f"--only: there is no {unknown[0]!r}; there are {', '.join(map(repr, choice))}")
    if arguments.what == "memory":  # what the others are compared with
        kinds = {ONE[0] if name in OURS else ONE[1] for name in arguments.only}
        arguments.only = [name for name in choice if name in kinds | set(arguments.only)]
    arguments.processes = arguments.processes or ([2, 4] if arguments.what == "memory" else [2])
    return arguments


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what it has started
    arguments = parse()
    most = max(arguments.processes) * arguments.micro_batches if arguments.what == "memory" else arguments.batch
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder = Path(name)
        make_model(folder / "model", arguments)
        write_examples(folder, arguments, (arguments.warm_up + arguments.steps) * most)
        for processes in arguments.processes:
            {"memory": memory, "speed": speed, "overlap": overlap}[arguments.what](folder, arguments, processes)


if __name__ == "__main__":
    main()
