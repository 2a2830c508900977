"""The command `pipeline` of the wheel: finds the environment's torch, which the program uses, and becomes the program."""

import importlib.util
import os
import re
import signal
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


class WrongTorch(ImportError):
    """The torch of this environment is not the one that pipeline was built with."""


def heed_interrupts():
    """Where this process does nothing but a verb, Ctrl-C ends it at once, like SIGTERM: Python's own handler waits until the call into
    the program returns, and while torch is imported it shows the lines of that. What has something to save has a handler of its own."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it otherwise, such as nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def torch_folder():
    """Where torch is; it is not imported. Raises WrongTorch unless it is the version that the wheel was made for."""
    spec = importlib.util.find_spec("torch")
    built_with = _read("torch.txt", _PACKAGE)
    if spec is None or not spec.origin:
        raise WrongTorch(f"{sys.executable} has no torch: pip install torch=={built_with.partition('+')[0] or '2.11.0'}, or "
                         "activate the environment that has it")
    folder = os.path.dirname(spec.origin)
    found = re.search(r"__version__ = '([^']+)'", _read("version.py", folder))
    if built_with and found and found[1] != built_with:
        raise WrongTorch(f"{folder} is torch {found[1]}, and this pipeline is for torch {built_with}: "
                         f"pip install torch=={built_with.partition('+')[0]}")
    return folder


def _read(name, folder):
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def main():
    """Never returns."""
    try:
        folder = torch_folder()
    except WrongTorch as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    os.environ["PIPELINE_TORCH_LIB"] = os.path.join(folder, "lib")
    os.environ.setdefault("PIPELINE_PYTHON", sys.executable)
    program = os.path.join(_PACKAGE, "bin/pipeline")
    os.execv(program, [program, *sys.argv[1:]])
