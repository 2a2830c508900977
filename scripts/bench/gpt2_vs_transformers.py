"""Runs bench_gpt2 and peer_hf_summarization.py side by side, taking turns, and prints examples/s, tokens/s, peak memory, first losses.

    scripts/bench/gpt2_vs_transformers.py --bench build/release/bin/bench_gpt2 --model FOLDER --examples EXAMPLES.jsonl

Run it with a Python that has tests/parity/requirements.txt.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


class Contestant:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()  # ready
        self.seconds, self.cpu, self.tokens, self.padded, self.losses, self.peak, self.steps = [], [], 0, 0, [], 0, 0

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def run(self, steps, count=True):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        result = self.answer()
        self.losses += result["losses"]
        self.peak = result["peak_bytes"]
        if count:
            self.seconds.append(result["seconds"])
            self.cpu.append(result["cpu_seconds"])
            self.tokens += result["tokens"]
            self.padded += result["padded_tokens"]
            self.steps += steps

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--examples", help="JSONL of make_summarization_examples.py; not for --language-model")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1, help="per turn")
    parser.add_argument("--grouped", action="store_true", help="sort the examples by length before batching, for both")
    parser.add_argument("--language-model", action="store_true", help="sequences of 1,024 tokens, loss over all")
    arguments = parser.parse_args()

    if arguments.language_model:
        examples = [{"tokens": [(i * 7919 + s * 104729 + i * i) % 50257 for i in range(1024)], "prompt": 1} for s in range(64)]
    else:
        examples = [json.loads(line) for line in Path(arguments.examples).read_text().splitlines()]
    examples = examples[: (arguments.turns * arguments.steps + 1) * arguments.batch]
    if arguments.grouped:
        examples.sort(key=lambda e: len(e["tokens"]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "examples.jsonl"
        path.write_text("".join(json.dumps(e) + "\n" for e in examples))
        mode = "language-model" if arguments.language_model else "summarization"
        ours = Contestant("ours", [arguments.bench, "train", arguments.model, str(path), str(arguments.batch),
                                   str(arguments.threads), mode])
        peer = Path(__file__).with_name("peer_hf_summarization.py")
        theirs = Contestant("transformers", [sys.executable, str(peer), "--model", arguments.model, "--examples", str(path),
                                             "--batch", str(arguments.batch), "--threads", str(arguments.threads)]
                            + (["--language-model"] if arguments.language_model else []))
        for contestant in (ours, theirs):
            contestant.run(1, count=False)  # warm-up: allocates the optimizer's state
        for _ in range(arguments.turns):
            for contestant in (theirs, ours):
                contestant.run(arguments.steps)
        for contestant in (ours, theirs):
            contestant.close()

    for c in (ours, theirs):
        total = sum(c.seconds)
        print(f"{c.name:13} {c.steps * arguments.batch / total:7.3f} examples/s  {c.tokens / total:8.1f} tokens/s  "
              f"padding {100 * (1 - c.tokens / c.padded):4.1f}%  peak {c.peak / 2**30:5.2f} GiB  "
              f"losses {' '.join(f'{x:.6f}' for x in c.losses[:4])}")
    print(f"speed {sum(theirs.seconds) / sum(ours.seconds):.3f} times theirs (by CPU time "
          f"{sum(theirs.cpu) / sum(ours.cpu):.3f}, which counts when others use the machine), memory {ours.peak / theirs.peak:.3f} times theirs, "
          f"first loss differs by {abs(ours.losses[0] / theirs.losses[0] - 1):.1e}, "
          f"largest difference {max(abs(a / b - 1) for a, b in zip(ours.losses, theirs.losses)):.1e}")


if __name__ == "__main__":
    main()
