"""Times how long a file of texts takes until its tokens are on the disk, ours and the peer's in turns; see scripts/bench/preparation.

Ours is `pipeline run` with the summarization task and a tiny model, from its start to its first step. The peer is `datasets`: load_dataset(), then
map() in as many processes as there are cores, with a tokenizer of `tokenizers`, from load_dataset() on (its imports take no time here). Each runs twice,
with an empty cache and again with what is in it: the difference is counted, so that what both do at each start is not. Both encode the columns
"document" and "summary" of the same file with the same tokenizer.json, and must get the same number of tokens.

Memory, at most: ours as the system tells of the process when it has ended, all of it; theirs of all processes together, looked at five times a second,
where pages that several of them have count once (Pss), and without pages of files, which the system can take back. So the peer's is rather too small.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS = "document", "summary"
FORMATS = {"JSONL": ("json", "rows.jsonl"), "Parquet": ("parquet", "rows.parquet")}  # how load_dataset() calls it, and the file
ROW_GROUP = 100_000_000  # bytes of text, as in what to_parquet() of `datasets` writes
WARM_UP_ROWS = 1000

CONFIG = """
[run]
device = "cpu"
[task]
plugin = "summarization"
sequence.max_tokens = 64
generate.max_tokens = 16
[task.language]
num_hidden_layers = 1
num_attention_heads = 2
hidden_size = 64
max_position_embeddings = 64
[loader]
workers = 1
[train]
max_steps = 1
global_batch = 16
micro_batch = 16
"""


def rows_of(texts, chance):
    """Without end. Documents of 300 to 4,000 characters, short ones more often, of several texts each; no two are the same."""
    pairs = [json.loads(line) for line in texts.read_text(encoding="utf-8").splitlines()]
    number = 0
    while True:
        chance.shuffle(pairs)
        rest = iter(pairs)
        for pair in rest:
            number += 1
            parts, length, wanted = [f"{number}. {pair['document']}"], len(pair["document"]), 300 * (4000 / 300) ** chance.random()
            while length < wanted and (more := next(rest, None)):
                parts.append(more["document"])
                length += len(more["document"])
            yield {"document": "\n\n".join(parts)[:4000], "summary": pair["summary"]}


def make_files(arguments, folder):
    """The rows in each format, the first of them in a folder of their own, and the tokenizer. In a process of its own, as its memory would be told as ours."""
    import pyarrow
    import pyarrow.parquet
    from tokenizers import ByteLevelBPETokenizer

    warm_up, tokenizer = folder / "warm-up", folder / "tokenizer"
    warm_up.mkdir()
    tokenizer.mkdir()
    schema = pyarrow.schema([(name, pyarrow.string()) for name in COLUMNS])
    lines, parquet = FORMATS["JSONL"][1], FORMATS["Parquet"][1]
    group, group_bytes, text_bytes, count, sample = [], 0, 0, 0, []
    with (folder / lines).open("w", encoding="utf-8") as file, pyarrow.parquet.ParquetWriter(folder / parquet, schema, compression="snappy") as writer:

        def write_group():
            writer.write_table(pyarrow.Table.from_pylist(group, schema))
            if count == len(group):
                pyarrow.parquet.write_table(pyarrow.Table.from_pylist(group[:WARM_UP_ROWS], schema), warm_up / parquet, compression="snappy")
                (warm_up / lines).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in group[:WARM_UP_ROWS]), encoding="utf-8")

        for row in rows_of(arguments.texts, random.Random(0)):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            row_bytes = sum(len(text.encode()) for text in row.values())
            if text_bytes < 20_000_000:
                sample.append(row["document"])
            group.append(row)
            group_bytes, text_bytes, count = group_bytes + row_bytes, text_bytes + row_bytes, count + 1
            is_enough = count % 100 == 0 and file.tell() >= 1e6 * arguments.megabytes
            if is_enough or group_bytes >= ROW_GROUP:
                write_group()
                group, group_bytes = [], 0
            if is_enough:
                break
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(sample, vocab_size=arguments.vocabulary, special_tokens=["<|endoftext|>"], show_progress=False)
    trained.save(str(tokenizer / "tokenizer.json"))
    (tokenizer / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}))
    (folder / "made.json").write_text(json.dumps({"rows": count, "text": text_bytes}))


def peer(kind, file, tokenizer_file):
    """A line when it is ready, one when the tokens are in the cache, with the seconds, and then how many they are."""
    import datasets
    import pyarrow.compute
    from tokenizers import Tokenizer

    datasets.disable_progress_bars()
    tokenizer = Tokenizer.from_file(tokenizer_file)

    def encode(batch):
        return {name: [one.ids for one in tokenizer.encode_batch_fast(batch[name], add_special_tokens=False)] for name in COLUMNS}

    begin = time.perf_counter()
    rows = datasets.load_dataset(kind, data_files=file, split="train")
    tokens = rows.map(encode, batched=True, num_proc=len(os.sched_getaffinity(0)), remove_columns=rows.column_names)
    print(time.perf_counter() - begin, flush=True)
    print(sum(pyarrow.compute.sum(pyarrow.compute.list_value_length(tokens.data.column(name))).as_py() for name in COLUMNS), flush=True)


def processes_below(pid):
    """It and all its children."""
    yield pid
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from processes_below(child)


def memory_of(pid):
    """Bytes of these processes together, all and without pages of files."""
    total = anonymous = 0
    for each in processes_below(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
                total += 1024 * int(line.split()[1]) if line.startswith("Pss:") else 0
                anonymous += 1024 * int(line.split()[1]) if line.startswith("Pss_Anon:") else 0
    return total, anonymous


class Contestant:
    """Runs with a cache of its own. `run(name)` returns seconds, processor-seconds, and tokens."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.peak = self.anonymous = 0  # bytes

    def prepare(self, name):
        """By how many seconds and processor-seconds a run is longer without a cache; how many tokens; and the seconds of a run with it."""
        shutil.rmtree(self.cache, ignore_errors=True)
        os.sync()  # nobody pays for what was written before
        cold, made = self.run(name), self.cached()
        os.sync()
        warm, added = self.run(name), self.cached() - made
        if added:
            raise SystemExit(f"{self.name}: the second run did not find all in the cache, it made {sorted(added)[:3]}")
        if cold[2] != warm[2]:
            raise SystemExit(f"{self.name}: {cold[2]} tokens, and {warm[2]} from the cache")
        shutil.rmtree(self.cache)
        return cold[0] - warm[0], cold[1] - warm[1], cold[2], warm[0]

    def cached(self):
        """The files in the cache that hold rows or tokens, and which ones they are: one that is made again is another."""
        return {(str(path), path.stat().st_ino) for path in self.cache.rglob("*") if path.suffix in (".tokens", ".arrow")}


class Ours(Contestant):
    name = "pipeline"

    def __init__(self, folder, pipeline):
        super().__init__(folder)
        self.pipeline = pipeline

    def run(self, name):
        run, log = self.folder / "run", self.folder / "run.log"
        shutil.rmtree(run, ignore_errors=True)
        config = self.folder / "bench.toml"
        config.write_text(CONFIG)
        command = [self.pipeline, "run", config]
        for key, value in {"run.dir": run, "run.cache_dir": self.cache, "task.data.train": self.folder / name,
                           "task.tokenizer.path": self.folder / "tokenizer"}.items():
            command += ["--set", f"{key}={value}"]
        begin = time.time()
        with log.open("w") as told:
            process = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)
            used = ended(process)
        if process.returncode != 0:
            raise SystemExit(f"pipeline ended with {process.returncode}\n{log.read_text()[-2000:]}")
        seconds = (run / "metrics.jsonl").stat().st_mtime - begin  # it has one line, of the only step
        self.peak = max(self.peak, 1024 * used.ru_maxrss)
        return seconds, used.ru_utime + used.ru_stime, sum(map(tokens_in, self.cache.glob("*.tokens")))


class Theirs(Contestant):
    name = "datasets"

    def run(self, name):
        kind = next(kind for kind, file in FORMATS.values() if file == Path(name).name)
        command = [sys.executable, __file__, "peer", kind, self.folder / name, self.folder / "tokenizer" / "tokenizer.json"]
        more = {"HF_HOME": str(self.cache), "HF_DATASETS_CACHE": str(self.cache / "datasets"), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        log = self.folder / "peer.log"
        with log.open("w") as told:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True, env={**os.environ, **more})
            while not select.select([process.stdout], [], [], 0.2)[0]:
                total, anonymous = memory_of(process.pid)
                self.peak, self.anonymous = max(self.peak, total), max(self.anonymous, anonymous)
            answers = process.stdout.read().split()
            used = ended(process)
        if process.returncode != 0:
            raise SystemExit(f"the peer ended with {process.returncode}\n{log.read_text()[-2000:]}")
        return float(answers[0]), used.ru_utime + used.ru_stime, int(answers[1])


def ended(process):
    """Waits for the end of it; what it and its children have used."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used


def tokens_in(path):
    """What the summary of a token store says (plugins/data/stores/sample_store.hpp: its footer has 80 bytes, and tells where it begins)."""
    with path.open("rb") as file:
        file.seek(-80, os.SEEK_END)
        _, _, summary = struct.unpack("<32x3Q", file.read(56))
        file.seek(summary)
        return struct.unpack("<2Q", file.read(16))[1]


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench/preparation", description="From texts to tokens on the disk, beside datasets and tokenizers.")
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--texts", type=Path, required=True, help="JSONL with \"document\" and \"summary\", of which rows are made (Debian's descriptions)")
    parser.add_argument("--megabytes", type=float, default=1000, help="of JSONL; needs six times as much on the disk, in TMPDIR (1000)")
    parser.add_argument("--vocabulary", type=int, default=16384, help="of the tokenizer, which is trained on 20 MB of the rows (16384)")
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < 6e6 * arguments.megabytes:
            raise SystemExit(f"{folder}: there is not enough room: set TMPDIR to a larger disk, or --megabytes")
        maker = multiprocessing.get_context("fork").Process(target=make_files, args=(arguments, folder))
        maker.start()
        maker.join()
        if maker.exitcode != 0:
            raise SystemExit("the files could not be made")
        compare(arguments, folder, json.loads((folder / "made.json").read_text()))


def compare(arguments, folder, made):
    print(f"{made['rows']} rows with {made['text'] / 1e6:.0f} MB of text, {len(os.sched_getaffinity(0))} cores, {arguments.turns} turns", flush=True)
    results = []
    for kind in arguments.formats:
        file = FORMATS[kind][1]
        both = ours, theirs = Ours(folder, arguments.pipeline), Theirs(folder)
        for contestant in both:
            contestant.prepare(f"warm-up/{file}")
            contestant.peak = contestant.anonymous = 0
        taken = {ours: [], theirs: []}
        for turn in range(arguments.turns):
            for contestant in reversed(both) if turn % 2 == 0 else both:
                taken[contestant].append(contestant.prepare(file))
            a, b = taken[ours][-1], taken[theirs][-1]
            if a[2] != b[2]:
                raise SystemExit(f"{kind}: {a[2]} tokens, and theirs {b[2]}: these are not the same computations, and their times tell nothing")
            print(f"{kind} turn {turn + 1}: ours {a[0]:.2f} s, theirs {b[0]:.2f} s: {b[0] / a[0]:.2f} times as fast, by processor time {b[1] / a[1]:.2f}; "
                  f"from the cache {a[3]:.2f} s, theirs {b[3]:.2f} s; {a[2]} tokens", flush=True)
        results.append((kind, (folder / file).stat().st_size / 1e6, ours, theirs, taken[ours], taken[theirs]))

    heads = ("format", "MB", "ours, s", "theirs, s", "ours, MB of text/s", "theirs", "times as fast (turns)", "by processor time", "ours, peak MB",
             "theirs", "ratio", "theirs without files", "ratio")
    print("", f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|", sep="\n")
    for kind, megabytes, ours, theirs, mine, peers in results:
        a, b = (statistics.median(one[0] for one in taken) for taken in (mine, peers))
        ratios = [other[0] / one[0] for one, other in zip(mine, peers, strict=True)]
        by_processor = statistics.median(other[1] / one[1] for one, other in zip(mine, peers, strict=True))
        print(f"| {kind} | {megabytes:.0f} | {a:.2f} | {b:.2f} | {made['text'] / 1e6 / a:.1f} | {made['text'] / 1e6 / b:.1f} | "
              f"{statistics.median(ratios):.2f} ({' '.join(f'{ratio:.2f}' for ratio in ratios)}) | {by_processor:.2f} | "
              f"{ours.peak / 1e6:.0f} | {theirs.peak / 1e6:.0f} | {ours.peak / theirs.peak:.2f} | {theirs.anonymous / 1e6:.0f} | "
              f"{ours.peak / theirs.anonymous:.2f} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        peer(*sys.argv[2:])
    else:
        main()
