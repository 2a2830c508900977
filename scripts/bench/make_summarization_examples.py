"""Tokenizes pairs of document and summary for the benchmarks: one JSON line {"tokens": [...], "prompt": n} per example.

The first n tokens are the document and the separator; the loss is over the rest. Documents are cut so that the summary fits.
"""

import argparse
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
SEPARATOR = "\n\nTL;DR: "


def load_tokenizer():
    from gpt2_vocabulary import fetch
    from tokenizers import ByteLevelBPETokenizer

    folder = Path(fetch())
    return ByteLevelBPETokenizer(str(folder / "encoder.json"), str(folder / "vocab.bpe"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", help="JSONL with document and summary")
    parser.add_argument("output")
    parser.add_argument("--count", type=int, default=512)
    parser.add_argument("--most", type=int, default=512, help="tokens per example")
    arguments = parser.parse_args()

    tokenizer = load_tokenizer()
    end_of_text = tokenizer.token_to_id("<|endoftext|>")
    lines = Path(arguments.pairs).read_text().splitlines()
    random.Random(0).shuffle(lines)
    with open(arguments.output, "w") as output:
        for line in lines[: arguments.count]:
            pair = json.loads(line)
            summary = tokenizer.encode(pair["summary"]).ids + [end_of_text]
            separator = tokenizer.encode(SEPARATOR).ids
            room = arguments.most - len(summary) - len(separator)
            prompt = tokenizer.encode(pair["document"]).ids[:room] + separator
            output.write(json.dumps({"tokens": prompt + summary, "prompt": len(prompt)}) + "\n")


if __name__ == "__main__":
    main()
