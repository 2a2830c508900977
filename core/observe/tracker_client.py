"""Copies a run's figures to a tracker: `pipeline` starts this, after the text of wandb_tracker.py or mlflow_tracker.py, whose class Tracker
it uses.

It reads one line of JSON (folder, uri, project, name, continued, config) and answers with one line: nothing, or what is wrong. Then it follows
the folder's metrics.jsonl and eval.jsonl until its input ends and all that they have is copied, however long that takes and whatever becomes of
the folder's name. The input's last word is how the run ended, "finished" or "stopped"; without one it has failed or was killed.
In the folder of the run that has the tracker's name, run.json has the run's id there, and which steps were logged. A continued run does some
steps again; what was logged stays.
"""
import sys

sys.path = [folder for folder in sys.path if folder]  # modules are not looked for in the current folder
import fcntl
import json
import os
import select
import signal

POLL_SECONDS = 1
GROUPS = {"train": "metrics.jsonl", "eval": "eval.jsonl"}
NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # as words, since JSON has no such numbers


class GrowingFile:
    """The lines that a file has got since the last look. It stays the same file when another one takes its name."""

    def __init__(self, folder, name):
        self.folder, self.name, self.file, self.rest = folder, name, None, b""

    def lines(self):
        if self.file is None:
            try:
                self.file = open(os.open(self.name, os.O_RDONLY, dir_fd=self.folder), "rb")
            except FileNotFoundError:
                return []
        *whole, self.rest = (self.rest + self.file.read()).split(b"\n")
        return [json.loads(line) for line in whole]


class Memory:
    """What a continued run must know of this one."""

    def __init__(self, folder, continued):
        os.makedirs(folder, exist_ok=True)
        self.folder = os.open(folder, os.O_RDONLY)
        fcntl.flock(self.folder, fcntl.LOCK_EX)  # while the client of an earlier launch is still uploading
        self.id, self.logged = None, {group: 0 for group in GROUPS}
        if continued and os.path.exists(os.path.join(folder, "run.json")):
            with open(os.path.join(folder, "run.json")) as file:
                known = json.load(file)
            self.id, self.logged = known["id"], known["logged"]

    def save(self):
        with open(os.open("run.json.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=self.folder), "w") as file:
            json.dump({"id": self.id, "logged": self.logged}, file)
        os.replace("run.json.tmp", "run.json", src_dir_fd=self.folder, dst_dir_fd=self.folder)


def figures(group, line):
    values = {name: float(value) if value in NOT_FINITE else value for name, value in line.items() if name != "step"}
    return {f"{group}/{name}": value for name, value in values.items() if isinstance(value, (int, float))}


def copy(files, memory, tracker):
    # Metrics first: the evaluations that belong between their steps have then been written, too.
    new = [(line["step"], order, group, line) for order, group in enumerate(GROUPS) for line in files[group].lines()
           if line["step"] > memory.logged[group]]
    if not new:
        return
    new.sort(key=lambda item: item[:2])
    tracker.log([(step, figures(group, line)) for step, _, group, line in new])
    for step, _, group, _ in new:
        memory.logged[group] = step
    memory.save()


def start(asked):
    try:
        __import__(Tracker.NAME)
    except ImportError as error:
        raise RuntimeError(f"{sys.executable} cannot import the package {Tracker.NAME} ({error}): `python3 -m pip install {Tracker.NAME}` "
                           "in the environment whose python3 is first on the PATH")
    memory = Memory(os.path.join(asked["folder"], Tracker.NAME), asked["continued"])
    tracker = Tracker(asked, memory.id)
    memory.id = tracker.id
    memory.save()
    return memory, tracker


def main():
    report = os.dup(1)
    os.dup2(2, 1)  # what the package prints goes to the log
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # the run ends first, and then this does

    def answer(line):
        try:
            os.write(report, f"{line}\n".encode())
        except BrokenPipeError:  # the run was killed meanwhile
            pass

    asked = json.loads(sys.stdin.buffer.readline())
    folder = os.open(asked["folder"], os.O_RDONLY)
    try:
        memory, tracker = start(asked)
    except Exception as error:
        answer(" ".join(str(error).split()) or repr(error))
        raise
    answer("")
    files = {group: GrowingFile(folder, name) for group, name in GROUPS.items()}
    ended = False
    while not ended:
        ended = bool(select.select([0], [], [], POLL_SECONDS)[0])  # also where the run is killed
        copy(files, memory, tracker)
    tracker.finish(sys.stdin.buffer.read().decode().strip())


if __name__ == "__main__":
    main()
