"""Two programs that train the same take turns: `pipeline run`, and a peer. For the programs that compare them.

Both run all the time as processes of their own; the one whose turn it is not stands still (the pipeline by SIGSTOP, the peer waits for
a line). A turn is the time from waking it until its steps are reported. The pipeline reports a step when the next one is done, so its
turns are one step behind, and as long; on a device, where the next one is queued by then, DevicePipeline has the clock.
"""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def process_status(pid, key):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"process {pid} has ended")


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Contestant:
    """Turns, and what they took. Subclasses: `process`, `start(steps)` wakes it, `wait()` returns the losses of these steps.

    covered: which steps were done in each turn, counted from 0; ahead: by how many they are later than those that were reported in it.
    peak: bytes on the host; device: MiB on the device, where the driver tells.
    """

    ahead = 0
    padding = 0.0  # its share of the positions, where it is told

    def __init__(self):
        self.seconds, self.cpu, self.covered, self.losses, self.peak, self.device = [], [], [], [], 0, None

    def close(self):
        self.process.kill()
        self.process.wait()

    def warm_up(self, steps=1):
        self.start(steps)
        self.losses += self.wait()
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the peak of the steps, not of loading

    def turn(self, steps):
        first = len(self.losses) + self.ahead
        cpu, begin = cpu_seconds(self.process.pid), time.perf_counter()
        self.start(steps)
        self.losses += self.wait()
        self.seconds.append(time.perf_counter() - begin)
        self.cpu.append(cpu_seconds(self.process.pid) - cpu)
        self.covered.append(range(first, first + steps))
        self.peak, self.device = process_status(self.process.pid, "VmHWM:"), device_memory(self.process.pid)

    def speeds(self, of_steps):
        """Of each turn, a second: `of_steps` says by number how much there is in a step."""
        return [sum(of_steps[step] for step in turn) / seconds for turn, seconds in zip(self.covered, self.seconds)]

    def speed(self, of_steps):
        """Of all turns together."""
        return sum(of_steps[step] for step in itertools.chain(*self.covered)) / sum(self.seconds)


class Pipeline(Contestant):
    """command: a `pipeline run` whose run.dir is `folder`/`run`."""

    name, ahead = "pipeline", 1

    def __init__(self, folder, command, run="run"):
        super().__init__()
        self.log = folder / f"{run}.log"
        self.metrics = folder / run / "metrics.jsonl"
        if run != "run":
            self.name = run
        self.read = 0
        self.process = subprocess.Popen(command, cwd=folder, stdout=self.log.open("w"), stderr=subprocess.STDOUT)

    def start(self, steps):
        self.wanted = self.read + steps
        self.process.send_signal(signal.SIGCONT)

    def lines(self):
        return self.metrics.read_text().splitlines() if self.metrics.exists() else []

    def wait(self, stop=True):
        while len(self.lines()) < self.wanted:
            if self.process.poll() is not None:
                raise SystemExit(f"pipeline ended with {self.process.returncode}\n{self.log.read_text()[-2000:]}")
            time.sleep(0.001)
        if stop:
            self.process.send_signal(signal.SIGSTOP)
        losses = [json.loads(line)["loss"] for line in self.lines()[self.read : self.wanted]]
        self.read = self.wanted
        return losses


class DevicePipeline(Pipeline):
    """Its steps are done by a device, which goes on when the process stands still.

    A step's line comes when the step is done and the next one is queued. So the first line of a turn tells of a step that was done while
    nobody counted, and the clock starts with the second: from there to the line of the last step the device does these steps and no others.
    What is queued by then is done before the peer's turn begins.
    """

    ahead = 0

    def turn(self, steps):
        self.start(len(self.lines()) - self.read + 2)
        self.losses += self.wait(stop=False)
        super().turn(steps)
        time.sleep(2 * self.seconds[-1] / steps)


class Peer(Contestant):
    """command: reads from stdin how many steps to run, a line each time, and answers with a line of JSON: losses, tokens, padded_tokens."""

    def __init__(self, name, command):
        super().__init__()
        self.name, self.tokens, self.padded = name, 0, 0
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()  # ready

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def start(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()

    def wait(self):
        answer = self.answer()
        self.tokens += answer["tokens"]
        self.padded += answer["padded_tokens"]
        self.padding = 1 - self.tokens / self.padded
        return answer["losses"]


def device_memory(pid):
    """MiB that the driver says this process has on its devices; None where it does not tell."""
    try:
        lines = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                               capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    rows = (line.split(", ") for line in lines)
    return sum(int(row[-1]) for row in rows if row[0] == str(pid) and row[-1].isdigit()) or None


def device_figures(ours, theirs, tokens):
    """For scripts/gpu-check. tokens: of each step. Both may have done other steps in their turns, so speeds are compared, not times."""
    last = min(len(ours.losses), len(theirs.losses)) - 1
    speeds = ours.speed(tokens), theirs.speed(tokens)
    figures = {"tokens/s": speeds[0], "peer's tokens/s": speeds[1], "ratio": speeds[0] / speeds[1],
               "ms/step": 1000 * sum(ours.seconds) / sum(map(len, ours.covered)), "MiB": ours.device, "peer's MiB": theirs.device,
               "first loss": ours.losses[0], "peer's first loss": theirs.losses[0],
               "last loss": ours.losses[last], "peer's last loss": theirs.losses[last]}
    return {name: value for name, value in figures.items() if value is not None}


class Timed:
    """A program that answers each line it is given with the seconds that took it, and a count."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line=""):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.process.args[0]} ended with {self.process.wait()}")
        seconds, count = answer.split()
        return float(seconds), int(count)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def take_turns_all(starts, turns, steps, before=1):
    """starts: functions that start contestants. `before`: steps of each before the turns. Returns all, when they have ended."""
    with contextlib.ExitStack() as stack:  # none may be left standing still
        contestants = []
        for start in starts:  # one after the other: each has the machine for itself while it starts
            contestants.append(start())
            stack.callback(contestants[-1].close)
            contestants[-1].warm_up(before)
        for turn in range(turns):
            for contestant in reversed(contestants) if turn % 2 == 0 else contestants:
                contestant.turn(steps)
    return contestants


def take_turns(ours, theirs, turns, steps, before=1):
    return take_turns_all([ours, theirs], turns, steps, before)


TOLERANCE = 1e-4  # of a loss; what differs by more is not the same computation, and its times tell nothing


def report(ours, theirs, examples, tokens):
    """examples, tokens: of all turns together, without padding."""
    for c in (theirs, ours):
        total = sum(c.seconds)
        print(f"{c.name:13} {examples / total:7.3f} examples/s  {tokens / total:8.1f} tokens/s  "
              f"padding {100 * c.padding:4.1f}%  peak {c.peak / 2**30:5.2f} GiB")
    first, worst = abs(ours.losses[0] / theirs.losses[0] - 1), max(abs(a / b - 1) for a, b in zip(ours.losses, theirs.losses))
    print(f"speed {sum(theirs.seconds) / sum(ours.seconds):.2f} times theirs "
          f"(turns: {' '.join(f'{b / a:.2f}' for a, b in zip(ours.seconds, theirs.seconds))}; by CPU time "
          f"{sum(theirs.cpu) / sum(ours.cpu):.2f}), peak memory {ours.peak / theirs.peak:.3f} times theirs")
    print(f"losses {ours.losses[0]:.6f} ... {ours.losses[-1]:.6f} and {theirs.losses[0]:.6f} ... {theirs.losses[-1]:.6f}: "
          f"the first differs by {first:.1e}, the most by {worst:.1e}")
    if not worst <= TOLERANCE:
        raise SystemExit(f"the losses differ by {worst:.1e}, more than {TOLERANCE:.0e}: these are not the same computations, and their times tell nothing")
