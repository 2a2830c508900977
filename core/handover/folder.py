"""A model folder as files: its JSON, and its weights as numpy arrays, without PyTorch."""
import json
import math
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    sys.exit(f"error: {sys.executable} has no package numpy: pip install numpy, or name another Python with PIPELINE_PYTHON")

TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1", "I8": "i1", "BOOL": "?"}


class Problem(Exception):
    """What is wrong, and what to do, for people."""


def fail(error):
    print(f"error: {error}", file=sys.stderr)
    return 1


def read_json(path, default=None):
    path = pathlib.Path(path)
    if not path.is_file():
        if default is None:
            raise Problem(f"{path.parent}: has no {path.name}: name a folder that `pipeline export` or transformers wrote")
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Problem(f"{path}: is no JSON: {error}") from None


class Tensor:
    """One tensor of a safetensors file; its values are read from the disk when asked for."""

    def __init__(self, path, start, header):
        self.path, self.dtype, self.shape = path, header["dtype"], tuple(header["shape"])
        self.offset = start + header["data_offsets"][0]
        if self.dtype not in TYPES:
            raise Problem(f"{path}: has a tensor of type {self.dtype}, which this does not read")

    def values(self):
        """As float32 where it is floating-point, of `shape`."""
        raw = np.memmap(self.path, TYPES[self.dtype], "r", self.offset, (math.prod(self.shape),)) if math.prod(self.shape) else np.zeros(0)
        if self.dtype == "BF16":
            return (raw.astype(np.uint32) << 16).view(np.float32).reshape(self.shape)
        return (raw.astype(np.float32) if self.dtype in ("F64", "F32", "F16") else np.array(raw)).reshape(self.shape)


def tensors_of(folder, name="model.safetensors"):
    """{name: Tensor} of a folder's file, or of the shards that its index names."""
    folder = pathlib.Path(folder)
    if (folder / name).is_file():
        files = [name]
    elif (folder / (name + ".index.json")).is_file():
        files = sorted(set(read_json(folder / (name + ".index.json"))["weight_map"].values()))
    else:
        raise Problem(f"{folder}: has neither {name} nor shards of it")
    found = {}
    for file in files:
        with open(folder / file, "rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(size))
        header.pop("__metadata__", None)
        found.update({key: Tensor(folder / file, 8 + size, value) for key, value in header.items()})
    return found
