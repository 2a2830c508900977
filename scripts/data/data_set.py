"""What the scripts of this folder share: a set of files in the cache, whole or not there, and a link to it in the checkout.

The set: ${XDG_CACHE_HOME:-$HOME/.cache}/pipeline/data/NAME/ with manifest.json, which has the size and the checksum of each file and is
looked at to tell whether the set is in place. It is made in a folder beside it and renamed when complete. What is slow to import is
imported where it is needed: scripts/pipeline asks with every run whether the data are there.
"""
import fcntl
import hashlib
import json
import os
import signal
import sys


class Unavailable(Exception):
    """What failed, and what to do about it."""


def size_of(path):
    """Of a file, or of a folder's files together."""
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries)
    return os.path.getsize(path)


def sha256_of(path):
    """Of a file, or of the list of a folder's files: checksum and name of each, as sha256sum prints them."""
    digest = hashlib.sha256()
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            digest.update(f"{sha256_of(os.path.join(path, name))}  {name}\n".encode())
        return digest.hexdigest()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sync(file):
    file.flush()
    os.fsync(file.fileno())


def run_watched(command, watch, **options):
    """subprocess.run, with its output captured, that calls watch() every second meanwhile."""
    import subprocess

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace", **options) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=1)
                    return subprocess.CompletedProcess(command, process.returncode, out, err)
                except subprocess.TimeoutExpired:
                    watch()
        except BaseException:
            process.kill()
            raise


def megabytes(folder):
    """Of the files below it; what vanishes meanwhile does not count."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                pass
    return size // 1000000


def file_entry(path, **figures):
    """What the manifest says of a file: the script's own figures, then these two."""
    return {**figures, "bytes": size_of(path), "sha256": sha256_of(path)}


class DataSet:
    """A script's set; the script derives from it, says the four things below, and calls main()."""

    name = ""  # of the script, the set and its folder
    format = 0  # raised whenever the same sources would give other files
    files = ()  # as in the manifest: paths below the set's folder, of files or of folders of files

    def make(self, folder, work):
        """Writes the files and README.md into `folder`; `work` is scratch space. Returns the manifest: a dict with "files", which has the
        file_entry of each, and any figures."""
        raise NotImplementedError

    def summary(self, manifest):
        """One phrase of a set that is in place."""
        raise NotImplementedError

    def describe(self, manifest):
        """Says what a set that was just made consists of."""
        raise NotImplementedError

    def __init__(self):
        checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        self.cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pipeline", "data")
        self.target = os.path.join(self.cache, self.name)
        self.shown_at = 0
        self.put_into(checkout)

    def put_into(self, folder):
        self.link = os.path.join(folder, "data", self.name)

    def say(self, text):
        print(f"{self.name}: {text}" + ("\033[K" if sys.stdout.isatty() else ""), flush=True)

    def show(self, text):
        """Progress: one moving line on a terminal, elsewhere a line every 15 seconds."""
        import time

        now = time.monotonic()
        if sys.stdout.isatty():
            print(f"{self.name}: {text}\033[K", end="\r", flush=True)
        elif now - self.shown_at >= 15:
            self.shown_at = now
            self.say(text)

    def fail(self, problem, remedy):
        print(f"{self.name}: error: {problem}: {remedy}", file=sys.stderr)
        sys.exit(1)

    def read_manifest(self, verify):
        """The manifest if every file of the set is as it says, else None and the reason."""
        try:
            with open(os.path.join(self.target, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            if manifest["format"] != self.format:
                return None, f"made by another version of this script (format {manifest['format']}, now {self.format})"
            for name in self.files:
                entry = manifest["files"][name]
                path = os.path.join(self.target, name)
                if size_of(path) != entry["bytes"]:
                    return None, f"{path} has {size_of(path)} bytes, the manifest says {entry['bytes']}"
                if verify and sha256_of(path) != entry["sha256"]:
                    return None, f"{path} does not have the checksum in the manifest"
            return manifest, None
        except OSError as error:
            return None, f"{error.filename}: {error.strerror}"
        except (ValueError, KeyError, TypeError) as error:
            return None, f"manifest.json cannot be read ({error!r})"

    def link_is_right(self):
        return os.path.islink(self.link) and os.path.realpath(self.link) == os.path.realpath(self.target)

    def put_link(self):
        if self.link_is_right():
            return
        if os.path.lexists(self.link) and not os.path.islink(self.link):
            self.fail(f"{self.link} exists and is not a link", "move it away; this script puts a link to the built set there")
        os.makedirs(os.path.dirname(self.link), exist_ok=True)
        temporary = f"{self.link}.{os.getpid()}"
        os.symlink(self.target, temporary)
        os.replace(temporary, self.link)
        self.say(f"linked {self.link}")

    def build(self):
        import shutil
        import tempfile

        prefix = f".{self.name}-"
        for left in os.listdir(self.cache):  # by a process that was killed: the lock says that nobody else is at work
            if left.startswith(prefix):
                shutil.rmtree(os.path.join(self.cache, left), ignore_errors=True)
        work = tempfile.mkdtemp(prefix=prefix, dir=self.cache)
        try:
            fresh = os.path.join(work, "set")
            os.mkdir(fresh)
            manifest = {"format": self.format, **self.make(fresh, work)}
            with open(os.path.join(fresh, "manifest.json"), "w", encoding="utf-8") as file:
                json.dump(manifest, file, indent=2)
                file.write("\n")
                sync(file)
            if os.path.lexists(self.target):  # a set that is broken or of another version
                os.rename(self.target, os.path.join(work, "old"))
            os.rename(fresh, self.target)
            return manifest
        except Unavailable as error:
            self.fail(*error.args)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def run(self, arguments, usage):
        if arguments in (["-h"], ["--help"]):
            print(usage)
            return 0
        if len(arguments) > 1 and arguments[0] == "--into":
            self.put_into(os.path.abspath(arguments[1]))
            arguments = arguments[2:]
        if arguments not in ([], ["--check"], ["--force"]):
            print(f"{self.name}: error: unknown arguments {' '.join(arguments)}: see --help", file=sys.stderr)
            return 2
        if arguments == ["--check"]:
            return 0 if self.link_is_right() and self.read_manifest(verify=False)[0] else 1
        os.makedirs(self.cache, exist_ok=True)
        with open(os.path.join(self.cache, f".{self.name}.lock"), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.say("another process is building the set; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            manifest, problem = (None, "--force") if arguments == ["--force"] else self.read_manifest(verify=True)
            if manifest is None:
                self.say(f"building the set ({problem})")
                manifest = self.build()
                self.describe(manifest)
            else:
                self.say(f"in place and verified: {self.summary(manifest)} in {self.target}")
            self.put_link()
        return 0

    def main(self, usage):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that scratch space is removed
        try:
            sys.exit(self.run(sys.argv[1:], usage))
        except KeyboardInterrupt:
            print(f"{self.name}: interrupted; nothing was left behind", file=sys.stderr)
            sys.exit(130)
        except OSError as error:
            self.fail(f"{error.filename or 'output'}: {error.strerror}", "check the free space and the permissions of that folder")
