"""gpu-check pack: what a machine with a device needs, in one folder of this checkout that git ignores, and that folder as .gpu.tar.gz.

    .gpu/prefix     the installed product, stripped, with the tests that know a device and what benchmarks need; laid out as build/release
    .gpu/lib        the distribution's libraries that they link and that another machine may lack
    .gpu/data       pairs, structures, pictures, GPT-2's vocabulary
    .gpu/pack.json  {"commit", "build": the folder for which the tests were built}
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / ".gpu"
TESTS = ("cuda_test", "backends_test")
BENCHMARKS = ("protein_batches",)
# Every machine that runs LibTorch has them, or LibTorch brings them.
ELSEWHERE = re.compile(r"^(ld-linux|linux-vdso|libc|libm|libdl|libpthread|librt|libutil|libgcc_s|libstdc\+\+|libz|libtorch|libc10|libgomp|libcud|libnv)")
PAIRS = {"train": 12000, "val": 200, "test": 200}
PICTURES = {"train": 400, "val": 32, "test": 32}


def run(*command):
    subprocess.run(command, cwd=ROOT, check=True)


def install():
    build = ROOT / "build" / "release"
    run(ROOT / "scripts/setup/build", "release", "product", "emulator", *TESTS, *BENCHMARKS)
    shutil.rmtree(GPU, ignore_errors=True)
    subprocess.run(["cmake", "--install", build, "--prefix", GPU / "prefix", "--strip"], check=True, stdout=subprocess.DEVNULL)
    for unused in ("include", "lib/cmake", "lib/pipeline/readers"):  # of Parquet: Arrow's libraries have 60 MB
        shutil.rmtree(GPU / "prefix" / unused, ignore_errors=True)
    for archive in (GPU / "prefix").rglob("*.a"):
        archive.unlink()
    parts = [build / "tests/bin" / name for name in TESTS] + [*(build / "tests/plugins/backends").glob("*.so")]
    parts += [build / "tests/plugins/tasks" / f"{name}.so" for name in BENCHMARKS]
    for part in parts:
        to = GPU / "prefix" / part.relative_to(build)
        to.parent.mkdir(parents=True, exist_ok=True)
        run("strip", "-o", to, part)
    return build


def programs():
    return [p for p in (GPU / "prefix").rglob("*") if p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]


def add_libraries():
    (GPU / "lib").mkdir()
    found = subprocess.run(["ldd", *programs()], capture_output=True, text=True, check=False).stdout
    for name, path in set(re.findall(r"^\s+(\S+) => (/\S+)", found, re.M)):
        if not ELSEWHERE.match(name) and not Path(path).is_relative_to(GPU):
            shutil.copy(path, GPU / "lib" / name)


def add_probes(build):
    """Libraries that look on: at waits, linked to nothing of CUDA, and at kernels, linked to CUPTI, which LibTorch loads anyway."""
    compile_probe = ["cc", "-O1", "-fPIC", "-shared"]
    run(*compile_probe, "-o", GPU / "lib/count_waits.so", ROOT / "scripts/gpu/count_waits.c", "-ldl")
    cache = re.search(r"^PIPELINE_TORCH_DIR:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    cuda = Path(cache) / "nvidia/cu13"
    run(*compile_probe, "-o", GPU / "lib/list_kernels.so", ROOT / "scripts/gpu/list_kernels.c", "-I", cuda / "include", "-L", cuda / "lib",
        "-l:libcupti.so.13")


def copy_lines(name, count):
    lines = (ROOT / "data" / name).read_text().splitlines(keepends=True)[:count]
    (GPU / "data" / name).write_text("".join(lines))
    return lines


def add_data():
    import sys

    sys.path.insert(0, str(ROOT / "tests" / "parity"))
    import gpt2_vocabulary

    for name in ("debian-descriptions", "protein-structures", "emoji"):
        run(ROOT / "scripts/data" / name)
    (GPU / "data/debian-descriptions").mkdir(parents=True)
    for split, count in PAIRS.items():
        copy_lines(f"debian-descriptions/{split}.jsonl", count)
    (GPU / "data/emoji/images").mkdir(parents=True)
    for split, count in PICTURES.items():
        for line in copy_lines(f"emoji/pretrain-{split}.jsonl", count):
            image = "emoji/" + json.loads(line)["image"]
            shutil.copy(ROOT / "data" / image, GPU / "data" / image)
    shutil.copytree(ROOT / "data/protein-structures", GPU / "data/protein-structures")
    vocabulary = Path(gpt2_vocabulary.fetch())
    (GPU / "data/gpt2").mkdir()
    shutil.copy(vocabulary / "encoder.json", GPU / "data/gpt2/vocab.json")
    shutil.copy(vocabulary / "vocab.bpe", GPU / "data/gpt2/merges.txt")


def pack():
    build = install()
    add_libraries()
    add_probes(build)
    add_data()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    (GPU / "pack.json").write_text(json.dumps({"commit": commit, "build": str(build)}))
    packed = Path(shutil.make_archive(GPU, "gztar", ROOT, GPU.name))
    print(f"packed {commit} into {packed.name}: {packed.stat().st_size / 2**20:.1f} MiB")
