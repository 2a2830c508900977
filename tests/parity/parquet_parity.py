"""Rows of Parquet files as the tasks read them, against Python: what pyarrow, pandas, DuckDB and datasets write, with odd types.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import argparse
import base64
import datetime
import decimal
import json
import math
import os
import random
import subprocess
import sys
import tempfile

from peer_packages import needed, use_their_python

use_their_python()
with needed("requirements.txt"):
    import datasets
    import duckdb
    import numpy
    import pandas
    import pyarrow
    import pyarrow.parquet


class Map(dict):
    """Of a column of maps: its null values are there."""


def plain(value):
    """What parquet_reader.h says that a value is in JSON."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None or isinstance(value, Map)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"\ufdd3": base64.b64encode(value).decode()}
    return value


def compare(rows, what, path, table=None):
    """The number of rows that differ from the table's, or else from what pyarrow reads."""
    table = table if table is not None else pyarrow.parquet.read_table(path)
    theirs = [plain(Map(row)) for row in table.to_pylist()]
    run = subprocess.run([rows, path], capture_output=True, text=True, encoding="utf-8", check=False)
    ours = [json.loads(line) for line in run.stdout.split("\n") if line]
    wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    print(f"{what}: {len(theirs)} rows, {len(wrong)} differ{run.stderr and ': ' + run.stderr}", flush=True)
    for i in wrong[:3]:
        print(f"  ours   {ours[i]}\n  theirs {theirs[i]}")
    return len(wrong) + abs(len(ours) - len(theirs)) + (run.returncode != 0)


def conversations(count):
    words = "alpha βeta 猫 \"quoted\" line\nbreak \u2028 \x00 \\ end 😀".split(" ")
    chance = random.Random(3)
    text = lambda: " ".join(chance.choices(words, k=chance.randrange(12)))
    return [{"id": i, "messages": [{"role": "user" if t % 2 == 0 else "assistant", "content": text() if chance.random() < 0.9 else None}
                                   for t in range(chance.randrange(6))] if chance.random() < 0.9 else None,
             "prompt": text(), "score": chance.choice([None, 0.1, float("nan"), 1e300, -2.5])} for i in range(count)]


def odd_types():
    strings = ["a", None, "ü\n", ""]
    column = pyarrow.array
    return pyarrow.table({
        "null": pyarrow.nulls(4), "bool": column([True, None, False, True]), "u8": column([0, 255, None, 1], pyarrow.uint8()),
        "i8": column([-128, None, 127, 0], pyarrow.int8()), "u64": column([2**64 - 1, None, 0, 1], pyarrow.uint64()),
        "i64": column([-2**63, 2**63 - 1, None, 0], pyarrow.int64()), "half": column(numpy.array([0.5, 65504, -0.25, 1], numpy.float16)),
        "float": column([0.1, 3e38, None, 1e-45], pyarrow.float32()), "large": column(strings, pyarrow.large_string()),
        "view": column(strings, pyarrow.string_view()), "words": column(strings).dictionary_encode(),
        "bytes": column([b"\xff\xd8", b"text", None, b""]), "fixed": column([b"\xff\x00", None, b"ab", b"cd"], pyarrow.binary(2)),
        "list": column([[1, None], [], None, [3]]), "fixed list": column([[1, 2], None, [3, 4], [5, 6]], pyarrow.list_(pyarrow.int32(), 2)),
        "large list": column([["a"], None, [], ["b", None]], pyarrow.large_list(pyarrow.string())),
        "nested": column([{"a": [{"b": "c"}]}, None, {"a": None}, {"a": [None, {"b": None}]}]),
        "map": column([[("k", 1), ("l", None)], None, [], [("m", 2)]], pyarrow.map_(pyarrow.string(), pyarrow.int32())),
    })


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", required=True, help="the program parquet_rows")
    rows = parser.parse_args().rows
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.parquet")
        table = pyarrow.Table.from_pylist(conversations(5000))
        for codec in ("snappy", "gzip", "zstd", "none"):
            for options in ({}, {"row_group_size": 37}, {"data_page_version": "2.0", "use_dictionary": False, "write_page_checksum": True}):
                pyarrow.parquet.write_table(table, path, compression=codec, **options)
                failed += compare(rows, f"pyarrow {codec} {options}", path, table)
        odd = odd_types()
        pyarrow.parquet.write_table(odd, path)
        # A float32 is written with the digits that it needs.
        as_text = [dict(row, map=None if row["map"] is None else Map(row["map"]),
                        float=None if row["float"] is None else float(str(numpy.float32(row["float"])))) for row in odd.to_pylist()]
        failed += compare(rows, "pyarrow, odd types", path, type("Rows", (), {"to_pylist": lambda self: as_text})())

        when = [datetime.datetime(2024, 2, 29, 12, 30, 1), None]
        pyarrow.parquet.write_table(pyarrow.table({"day": pyarrow.array([datetime.date(2024, 2, 29), None]), "time": pyarrow.array(when),
                                                   "price": pyarrow.array([decimal.Decimal("1.50"), None])}), path)
        text = subprocess.run([rows, path], capture_output=True, text=True, check=True).stdout.splitlines()[0]
        print(f"dates and decimals: {text}")
        failed += any(part not in text for part in ('"day":"2024-02-29"', '"time":"2024-02-29 12:30:01', '"price":"1.50"'))

        frame = pandas.DataFrame({"text": ["a", None, "ü"], "kind": pandas.Categorical(["x", "y", "x"]), "n": [1, 2, 3], "f": [0.5, None, 2]})
        for engine_options in ({}, {"index": True}, {"compression": "zstd"}):
            frame.to_parquet(path, **engine_options)
            failed += compare(rows, f"pandas {engine_options}", path)

        database = duckdb.connect()
        database.execute("create table t as select i as id, 'text ' || i as prompt, [{'role': 'user', 'content': 'q' || i}] as messages, "
                         "case when i % 3 = 0 then null else i / 7 end as score from range(20000) r(i)")
        for codec in ("snappy", "gzip", "zstd"):
            database.execute(f"copy t to '{path}' (format parquet, codec '{codec}', row_group_size 4096)")
            failed += compare(rows, f"DuckDB {codec}", path)

        features = datasets.Dataset.from_list(conversations(300))
        features.to_parquet(path)
        failed += compare(rows, "datasets", path)
        picture = {"bytes": b"\x89PNG\r\n\x1a\n\xff", "path": None}
        datasets.Dataset.from_dict({"image": [picture] * 3, "caption": ["a", "b", "c"]},
                                   features=datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string")})).to_parquet(path)
        failed += compare(rows, "datasets with pictures", path)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
