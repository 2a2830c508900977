"""Compiles our .cu files by NVRTC, which needs no device, for all that they are meant for. None may keep
anything in local memory: they have fewer registers where blocks are large (__launch_bounds__). So it is with the pinned torch's NVRTC;
with that of another the kernels must compile.

PIPELINE_PYTHON names the interpreter that has the packages of tests/parity/requirements.txt: NVRTC is one that torch brings. Exit code 77:
skipped, for the reason printed.
"""
import ctypes
import os
import re
import sys
from pathlib import Path

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
PINS = Path(__file__).resolve().parents[2] / "scripts/setup/wheels/cuda.txt"
ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def nvrtc():
    for folder in sys.path:
        for path in sorted(Path(folder).glob("nvidia/cu13/lib/libnvrtc.so.13")):
            return ctypes.CDLL(str(path))
    skip("there is no NVRTC: set PIPELINE_PYTHON to a Python with tests/parity/requirements.txt")


def compiled(library, path, architecture):
    """The compiler's log, with what each kernel uses."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    headers, names = ((ctypes.c_char_p * 1)(text) for text in ((PLUGINS / "gpu/device.cuh").read_bytes(), b"device.cuh"))
    assert library.nvrtcCreateProgram(ctypes.byref(program), path.read_bytes(), path.name.encode(), 1, headers, names) == 0
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"--ptxas-options=-v"]
    status = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    assert library.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
    log = ctypes.create_string_buffer(size.value)
    assert library.nvrtcGetProgramLog(program, log) == 0
    library.nvrtcDestroyProgram(ctypes.byref(program))
    assert status == 0, f"{path.name} for {architecture}:\n{log.value.decode()}"
    return log.value.decode()


def main():
    if wanted := os.environ.pop("PIPELINE_PYTHON", None):
        os.execv(wanted, [wanted] + sys.argv)
    library, files = nvrtc(), sorted(PLUGINS.rglob("*.cu"))
    version = ctypes.c_int(), ctypes.c_int()
    assert library.nvrtcVersion(*map(ctypes.byref, version)) == 0
    is_pinned = f"nvidia-cuda-nvrtc=={version[0].value}.{version[1].value}." in PINS.read_text()
    assert files, f"there are no kernels in {PLUGINS}"
    for architecture in ARCHITECTURES:
        for path in files:
            log = compiled(library, path, architecture)
            names = re.findall(r"Compiling entry function '(\w+)'", log)
            in_memory = [int(n) for n in re.findall(r"(\d+) bytes stack frame", log)]
            registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
            assert len(names) == len(in_memory) == len(registers) > 0, log
            assert not (is_pinned and any(in_memory)), f"{path.name} for {architecture}:\n{log}"
            print(f"{architecture}: " + ", ".join(f"{name} {count} registers" for name, count in zip(names, registers)))


if __name__ == "__main__":
    main()
