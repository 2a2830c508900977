"""What the tests of completion work in: a folder with configurations, and the program on the PATH."""
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
PLUGINS = os.path.abspath(sys.argv[2])
FILES = {
    "configs/line.toml": '[task]\nplugin = "linear_regression"\n',
    "configs/staged.toml": '[task]\nplugin = "linear_regression"\n[[stage]]\nname = "first"\n[[stage]]\nname = "second"\n',
    "configs/notes.txt": "",
    "configs/two words/x.toml": "",
    "runs/a/metrics.jsonl": "",
}


def enter():
    """Changes into it; it is removed when the object that this returns goes."""
    folder = tempfile.TemporaryDirectory()
    for name, text in FILES.items():
        path = pathlib.Path(folder.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.chdir(folder.name)
    os.environ["PIPELINE_PLUGIN_PATH"] = PLUGINS
    os.environ["PATH"] = os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]
    return folder


def script(shell):
    return subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, check=True).stdout
