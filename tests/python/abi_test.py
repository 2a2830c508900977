"""abi.py says of each struct that it has what core/abi/layout says of pipeline.h: names, offsets, sizes, order."""
import ctypes
import importlib.util
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop())


def load_abi():
    spec = importlib.util.spec_from_file_location("abi", ROOT / "core/sdk/python/pipeline/abi.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class AbiTest(unittest.TestCase):
    def setUp(self):
        self.abi = load_abi()
        text = (ROOT / f"core/abi/layout/{self.abi.ABI_MAJOR}.{self.abi.ABI_MINOR}.txt").read_text()
        self.sizes = {name: int(size) for name, size in re.findall(r"^struct (\w+) size (\d+)$", text, re.M)}
        self.fields = {}
        for struct, field, offset, size in re.findall(r"^field (\w+)\.(\w+) offset (\d+) size (\d+)$", text, re.M):
            self.fields.setdefault(struct, []).append((field, int(offset), int(size)))

    def test_is_of_the_newest_version(self):
        header = (ROOT / "core/abi/pipeline.h").read_text()
        version = re.search(r"#define PL_ABI_MAJOR (\d+)u?", header)[1], re.search(r"#define PL_ABI_MINOR (\d+)u?", header)[1]
        self.assertEqual((self.abi.ABI_MAJOR, self.abi.ABI_MINOR), tuple(map(int, version)))

    def test_structs_are_those_of_the_header(self):
        compared = 0
        for name, struct in vars(self.abi).items():
            if not isinstance(struct, type) or not issubclass(struct, self.abi.Sized) or struct is self.abi.Sized:
                continue
            c_name = "pl_" + re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
            mine = [(field, getattr(struct, field).offset, getattr(struct, field).size) for field, _ in struct._fields_]
            with self.subTest(c_name):
                self.assertEqual(mine, self.fields[c_name])
                self.assertEqual(ctypes.sizeof(struct), self.sizes[c_name])
            compared += 1
        self.assertGreaterEqual(compared, 18)

    def test_constants_are_those_of_the_header(self):
        header = (ROOT / "core/abi/pipeline.h").read_text()
        values = {name: int(value, 0) for name, value in re.findall(r"#define PL_(\w+) (0x[0-9a-fA-F]+|\d+)u?\s", header)}
        for prefix in ("OPTION", "RUN", "PARAMETER", "PASS", "DEVICE", "STREAM", "ERROR"):
            for name, value in vars(self.abi).items():
                if name.startswith(prefix + "_") and isinstance(value, int):
                    self.assertEqual(values[name], value, name)


if __name__ == "__main__":
    unittest.main()
