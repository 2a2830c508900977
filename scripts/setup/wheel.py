"""wheel.py TREE FOLDER: makes a wheel of an unpacked .tar.gz of scripts/package, in FOLDER.

The package `pipeline` has the Python modules, and the tree beside them. The torch of the environment is used, so there is no second one.
Libraries that not every Linux has go along, in lib/pipeline/libraries, where the program and its plugins look (their RUNPATH).
Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import zipfile

# What a manylinux wheel may expect of any Linux (PEP 600), and what torch and Arrow bring.
EXPECTED = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|z|gomp|c10.*|torch.*|nccl|arrow|parquet)\.so.*|ld-linux.*|linux-vdso.*")
FOREIGN = ["libsentencepiece.so.0"]  # loaded when it is needed: nothing links it
ENTRY = "[console_scripts]\npipeline = pipeline.start:main\n"


def programs(tree):
    return [file for file in sorted(tree.rglob("*")) if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF"]


def libraries(files):
    """Those that go along: {name: path}."""
    listed = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    listed += subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True,
                             env=dict(os.environ, PATH=os.environ["PATH"] + ":/sbin:/usr/sbin")).stdout
    paths = dict(reversed(re.findall(r"^\s+(\S+).* => (/\S+)", listed, re.M)))
    needed = set(FOREIGN)
    for file in files:
        needed.update(re.findall(r"NEEDED\s+(\S+)", subprocess.run(["objdump", "-p", file], capture_output=True, text=True, check=True).stdout))
    return {name: paths[name] for name in sorted(needed) if not EXPECTED.fullmatch(name) and not name.startswith("libpipeline")}


def torch_of(file):
    """The torch that a TorchVersion.cmake names: 2.11.0+cu130."""
    return "+".join(re.findall(r"^set\(PIPELINE_TORCH_(?:VERSION|VARIANT) (\S+)\)", file.read_text(), re.M))


def oldest_libc(files):
    """The glibc that these need, (2, N)."""
    versions = [(2, 17)]
    for file in files:
        symbols = subprocess.run(["objdump", "-T", file], capture_output=True, text=True, check=True).stdout
        versions += [tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(2\.\d+)", symbols)]
    return max(versions)


def main(tree, folder):
    tree, root = pathlib.Path(tree), pathlib.Path(__file__).resolve().parents[2]
    version = re.search(r"^project\(.*VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text(), re.M | re.S)[1]
    torch = torch_of(tree / "lib/cmake/pipeline/TorchVersion.cmake")
    if torch != torch_of(root / "cmake/TorchVersion.cmake"):
        version += f"+torch{torch.split('+')[0]}"
    own = programs(tree)
    along = libraries(own)
    libc = oldest_libc([*own, *along.values()])
    tag = f"py3-none-manylinux_{libc[0]}_{libc[1]}_x86_64"
    wheel = pathlib.Path(folder) / f"pipeline-{version}-{tag}.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        def add(path, data, mode=0o644):
            info = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            out.writestr(info, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}")

        modules = tree / "lib/pipeline/python/pipeline"
        for file in sorted(tree.rglob("*")):
            if not file.is_file():
                continue
            inside = file.relative_to(modules if modules in file.parents else tree)
            if "__pycache__" not in inside.parts:
                add(f"pipeline/{inside}", file.read_bytes(), 0o755 if os.access(file, os.X_OK) else 0o644)
        for name, path in along.items():
            add(f"pipeline/lib/pipeline/libraries/{name}", pathlib.Path(path).read_bytes())
        add("pipeline/torch.txt", (torch + "\n").encode())
        about = f"pipeline-{version}.dist-info"
        add(f"{about}/entry_points.txt", ENTRY.encode())
        add(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: pipeline\nVersion: {version}\nSummary: Trains models: tasks, strategies and "
            f"backends from a TOML file\nRequires-Python: >=3.9\nRequires-Dist: torch=={torch.split('+')[0]}\n".encode())
        add(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: pipeline\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        record.append(f"{about}/RECORD,,")
        out.writestr(f"{about}/RECORD", "\n".join(record) + "\n")
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
