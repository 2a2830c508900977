"""Two hosts, made of network namespaces, train on two processes each over a slow link; see scripts/bench/slow_link.

What a step sends: the bytes that leave a host in a long run, less those in a short one, divided by the steps that are between them. Headers of
packets are counted, too: the kernel hands over up to 64 KiB with one.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

RANKS_OF_A_HOST = 2
LAYERS, SLOTS = 4, 2  # strategy.unit_slots, its default
HOST = 'strategy.shard_group="host"'
RUNS = {"ddp": ["strategy.plugin=ddp"]} | {
    f"sharded {stage}{name}": ["strategy.plugin=sharded", f"strategy.zero_stage={stage}", *more]
    for stage in (2, 3) for name, more in (("", []), (", host", [HOST]))}


def formula(name, parameters, width, micro_batches):
    """Bytes over the link in one direction. Of each number that all four ranks have, a rank sends a quarter to each of the others: over the link go
    two ranks' quarters to two ranks, which is the number once."""
    if name.endswith("host"):
        return 4 * parameters  # an all-reduce of two ranks, for each half of the gradient: half of it, and half of its sum
    if name == "ddp":
        return 8 * parameters  # gradients and their sums
    if name == "sharded 2":
        return (4 * micro_batches + 4) * parameters
    # Blocks that are in their slots when a pass turns round are not gathered again; unit 0 is gathered once a step.
    block = 12 * width**2 + 13 * width
    gathered = 2 * micro_batches * (LAYERS - SLOTS) + SLOTS
    return 4 * (micro_batches * parameters + parameters - LAYERS * block + gathered * block)


class Hosts:
    """Two network namespaces, n0 and n1, joined by a cable."""

    def __init__(self, folder, mbit):
        self.spaces = [f"slow{os.getpid()}-{i}" for i in range(2)]
        self.names = folder / "hosts"
        self.names.write_text("127.0.0.1 localhost\n10.88.0.1 n0\n10.88.0.2 n1\n")
        self.mbit = mbit

    def __enter__(self):
        for space in self.spaces:
            self.ip("netns", "add", space)
        a, b = self.spaces
        self.ip("-n", a, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", b)
        for i, space in enumerate(self.spaces):
            self.ip("-n", space, "addr", "add", f"10.88.0.{i + 1}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self.ip("-n", space, "link", "set", device, "up")
            subprocess.run(["tc", "-n", space, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{self.mbit}mbit", "burst", "256kb",
                            "latency", "100ms"], check=True)
        return self

    def __exit__(self, *_):
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False)

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout

    def on(self, host, command):
        """As tests/distributed/hosts.cpp has it."""
        return ["nsenter", f"--net=/run/netns/{self.spaces[host]}", "unshare", "--uts", "--mount", "sh", "-c",
                f'mount --bind {self.names} /etc/hosts && hostname n{host} && exec "$@"', "sh", *command]

    def sent(self):
        """Bytes that each host has sent to the other."""
        return [json.loads(self.ip("-n", space, "-s", "-j", "link", "show", "eth0"))[0]["stats64"]["tx"]["bytes"] for space in self.spaces]


def write_job(folder, arguments):
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghij", k=4)) for _ in range(60)]
    (folder / "pairs.jsonl").write_text("".join(
        json.dumps({"document": " ".join(chance.choices(words, k=60)), "summary": " ".join(chance.choices(words, k=8))}) + "\n" for _ in range(500)))
    (folder / "bench.toml").write_text(f"""
[run]
device = "cpu"
cache_dir = "cache"
[task]
plugin = "summarization"
data = {{ train = "pairs.jsonl" }}
tokenizer.vocab_size = 300
language = {{ num_hidden_layers = {LAYERS}, num_attention_heads = 4, hidden_size = {arguments.width}, max_position_embeddings = 64 }}
sequence = {{ max_tokens = 48, max_summary_tokens = 16, loss = "all" }}
generate.max_tokens = 8
[train]
precision = "fp32"
micro_batch = 2
[checkpoint]
every = 0
[evaluate]
at_end = false
[backend]
plugin = "gloo"
[launch]
processes = {RANKS_OF_A_HOST}
threads = 1
""")


def train(hosts, folder, arguments, name, micro_batches, steps):
    """Seconds of each step, bytes that the host which sent most has sent, and the number of parameters."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    settings = [*RUNS[name], f"train.global_batch={2 * 2 * RANKS_OF_A_HOST * micro_batches}", f"train.max_steps={steps}", "run.dir=run"]
    command = [arguments.pipeline, "run", "bench.toml", *(word for setting in settings for word in ("--set", setting)),
               "--nodes", "2", "--master-address", "n0"]
    before = hosts.sent()
    logs = [folder / f"n{host}.log" for host in range(2)]
    runs = [subprocess.Popen(hosts.on(host, [*command, "--node-rank", str(host)]), cwd=folder, stdout=log.open("w"), stderr=subprocess.STDOUT)
            for host, log in enumerate(logs)]
    try:
        codes = [run.wait() for run in runs]
    finally:
        for run in runs:
            run.kill()
    if any(codes):
        raise SystemExit(f"{name} failed\n" + "\n".join(log.read_text()[-2000:] for log in logs))
    sent = max(after - then for after, then in zip(hosts.sent(), before))
    seconds = [json.loads(line)["seconds"] for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return seconds, sent, json.loads((folder / "run" / "summary.json").read_text())["trainable_parameters"]


def compare(hosts, folder, arguments, micro_batches):
    few, many = arguments.warm_up, arguments.warm_up + arguments.steps
    start = {name: train(hosts, folder, arguments, name, micro_batches, few)[1] for name in RUNS}
    seconds, sent = {name: [] for name in RUNS}, {name: [] for name in RUNS}
    for turn in range(arguments.turns):
        for name in RUNS if turn % 2 == 0 else reversed(RUNS):
            steps, total, parameters = train(hosts, folder, arguments, name, micro_batches, many)
            seconds[name].append(statistics.mean(steps[few:]))
            sent[name].append((total - start[name]) / arguments.steps)
    print(f"\n{parameters:,} parameters, {micro_batches} micro-batch(es) of a process in a step, link of {arguments.mbit} Mbit/s; MB (10^6 bytes) over "
          f"the link in a step, in one direction\n{'':17} {'formula':>8} {'counted':>8} {'off':>6} {'s/step':>7} {'times ddp':>10} {'times plain':>12}  turns")

    def times(name, other):
        return statistics.median(a / b for a, b in zip(seconds[name], seconds[other]))

    for name in RUNS:
        expected, counted = formula(name, parameters, arguments.width, micro_batches), statistics.median(sent[name])
        print(f"{name:17} {expected / 1e6:8.2f} {counted / 1e6:8.2f} {100 * (counted / expected - 1):+5.1f}% {statistics.median(seconds[name]):7.3f} "
              f"{times(name, 'ddp'):10.2f} {times(name, name.removesuffix(', host')):12.2f}  {' '.join(f'{one:.2f}' for one in seconds[name])}", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # takes the hosts away
    parser = argparse.ArgumentParser(prog="scripts/bench/slow_link", description="Hybrid sharding on a slow link between two hosts.")
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--mbit", type=int, default=200, help="of the link, Mbit/s in each direction (200)")
    parser.add_argument("--width", type=int, default=256, help="of the model (256: 3.3 million parameters)")
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[1, 2], help="of a process in a step (1 and 2)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=2, help="steps before it counts (2)")
    parser.add_argument("--steps", type=int, default=6, help="that count (6)")
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("tc"):
        parser.error("hosts and a slow link need root and tc (package iproute2)")
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder = Path(name)
        write_job(folder, arguments)
        with Hosts(folder, arguments.mbit) as hosts:
            for micro_batches in arguments.micro_batches:
                compare(hosts, folder, arguments, micro_batches)


if __name__ == "__main__":
    main()
