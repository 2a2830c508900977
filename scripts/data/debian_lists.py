"""Fetches a Debian or Ubuntu release's package lists with apt, without root and beside the system's own lists."""
import os
import re
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

from data_set import Unavailable, megabytes, run_watched

MEGABYTES = {"Packages": 10, "Translations": 6}  # each kind of list, compressed


class Lists(NamedTuple):
    """What fetch() brings."""

    found: dict  # kind -> paths
    release: str  # "Debian 12.1 (bookworm)"
    codename: str  # empty if the system does not tell
    flags: list  # with which apt works on these lists


def os_release():
    values = {}
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                values[key] = value.strip("\"'")
    except OSError:
        pass
    return values


def run(command, watch=lambda: None, **options):
    return run_watched(command, watch, stderr=subprocess.PIPE, env=dict(os.environ, LC_ALL="C.UTF-8"), **options)


def apt_options(folder, kinds):
    for name in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, name))
    open(os.path.join(folder, "status"), "w").close()
    # Hooks belong to the system's lists (Docker's images delete downloaded packages in one): not to be run here.
    config = os.path.join(folder, "apt.conf")
    with open(config, "w", encoding="utf-8") as file:
        for hook in ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success"):
            file.write(f"#clear APT::Update::{hook};\n")
    options = {
        "Acquire::Languages": "en",
        "Acquire::GzipIndexes": "false",
        "Acquire::Retries": "3",
        "Acquire::PDiffs": "false",
        "APT::Sandbox::User": "root",  # a private folder need not be readable by apt's own user
        "Dir::State": folder,
        "Dir::State::Lists": f"{folder}/lists",
        "Dir::State::status": f"{folder}/status",
        "Dir::Cache": f"{folder}/cache",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    # Contents, icons, sources and the like may be switched on system-wide; what is asked for is enough here.
    for line in run(["apt-config", "dump", "Acquire::IndexTargets"]).stdout.splitlines():
        match = re.match(r"Acquire::IndexTargets::(deb(?:-src)?)::([^: ]+) ", line)
        if match and (match[1] != "deb" or match[2] not in kinds):
            options[f"Acquire::IndexTargets::{match[1]}::{match[2]}::DefaultEnabled"] = "false"
    flags = ["-c", config]
    for key, value in options.items():
        flags += ["-o", f"{key}={value}"]
    return flags


def stanzas(text):
    """Splits deb822 text into fields: {"Package": "0ad", ...}; continuation lines keep their leading space."""
    for block in text.split("\n\n"):
        fields, key = {}, None
        for line in block.split("\n"):
            if line[:1] in (" ", "\t"):
                if key:
                    fields[key] += "\n" + line
            elif ":" in line:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields:
            yield fields


def wanted_targets(flags, codename, architecture, kinds):
    """The release's own package lists and translations that apt has just fetched, and what they are called."""
    listing = run(["apt-get", "indextargets"] + flags)
    found, release = {kind: [] for kind in kinds}, ""
    for target in stanzas(listing.stdout):
        kind = target.get("Created-By")
        if kind not in found or target.get("Origin") not in ("Debian", "Ubuntu"):
            continue
        if codename and target.get("Codename") != codename:
            continue
        if re.search(r"-(updates|security|backports|proposed)", target.get("Suite", "") + target.get("Codename", "")):
            continue
        if target.get("Component") not in ("main", "universe"):
            continue
        if target.get("Architecture", architecture) not in (architecture, "all"):
            continue
        if os.path.exists(target["Filename"]):
            found[kind].append(target["Filename"])
            release = f"{target['Origin']} {target.get('Version', '')} ({target.get('Codename', '')})"
    return found, release


def read_index(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def print_complaints(done):
    """What apt said of its failure."""
    lines = (done.stdout + done.stderr).splitlines()
    for line in [line for line in lines if line.startswith(("E:", "W:", "Err:"))][:8]:
        print(f"  apt: {line}", file=sys.stderr)


def fetch(folder, say, show, kinds=tuple(MEGABYTES)):
    """Returns Lists, kept in `folder`; say(text) hears what is done, show(text) how far it is."""
    for tool in ("apt-get", "apt-config", "dpkg", "dpkg-deb"):
        if not shutil.which(tool):
            raise Unavailable(f"{tool} is not on this system",
                              "run this script on Debian or Ubuntu, or copy a set that was built there into the cache, "
                              "or give the task data of your own in its [task.data] table")
    codename = os_release().get("VERSION_CODENAME", "")
    architecture = run(["dpkg", "--print-architecture"]).stdout.strip()
    flags = apt_options(folder, kinds)
    say(f"fetching the package lists of {codename or 'this system'} into a private folder with apt-get update"
        f" (about {sum(MEGABYTES[kind] for kind in kinds)} MB)")
    started = time.monotonic()
    update = run(["apt-get", "update"] + flags, lambda: show(f"{megabytes(folder)} MB, unpacked"))
    found, release = wanted_targets(flags, codename, architecture, kinds)
    for kind in found:
        if not found[kind]:
            print_complaints(update)
            raise Unavailable(
                f"apt-get update brought no {kind} list of {codename or 'Debian'} main (exit code {update.returncode})",
                "check the network and the proxy settings, and that /etc/apt/sources.list or sources.list.d names the "
                "distribution's own archive; a plain `apt-get update` as root must work")
    say(f"fetched {release} in {time.monotonic() - started:.0f} s")
    return Lists(found, release, codename, flags)
