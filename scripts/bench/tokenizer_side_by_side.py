"""Times our tokenizer and Hugging Face's in turns; see scripts/bench/tokenizer."""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import tokenizers  # noqa: E402  (reads these variables)
import tokenizers.trainers  # noqa: E402

from side_by_side import Timed  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "parity"))
import gpt2_vocabulary  # noqa: E402


def read_documents(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line)["document"] for line in file]


def write_frames(path, documents):
    with open(path, "wb") as file:
        for document in documents:
            data = document.encode()
            file.write(struct.pack("<I", len(data)) + data)


class Theirs:
    def __init__(self, vocabulary, documents):
        files = [os.path.join(vocabulary, name) for name in ("encoder.json", "vocab.bpe")]
        self.tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*files))
        self.tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        self.documents = documents

    def encode(self):
        # Their fastest way: many texts in one call, no offsets. Counting the ids is not timed.
        start = time.perf_counter()
        encodings = self.tokenizer.encode_batch_fast(self.documents, add_special_tokens=False)
        return time.perf_counter() - start, sum(len(encoding) for encoding in encodings)


def train_theirs(documents, vocab_size):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocab_size - 1, min_frequency=2, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    start = time.perf_counter()
    tokenizer.train_from_iterator(documents, trainer)
    return time.perf_counter() - start


def train_ours(tool, corpus, vocab_size, folder):
    start = time.perf_counter()
    with open(corpus, "rb") as file:
        subprocess.run([tool, "train", str(vocab_size), "2", folder], stdin=file, check=True)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True, help="the program tokenizer_tool")
    parser.add_argument("--text", required=True, help="JSONL with a column document")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    documents = read_documents(arguments.text)
    megabytes = sum(len(document.encode()) for document in documents) / 1e6
    vocabulary = gpt2_vocabulary.fetch()
    print(f"{len(documents)} texts, {megabytes:.1f} MB; GPT-2's vocabulary; tokenizers {tokenizers.__version__}; one core")
    with tempfile.TemporaryDirectory() as folder:
        corpus = os.path.join(folder, "corpus")
        write_frames(corpus, documents)
        ours, theirs = Timed(arguments.tool, "time", vocabulary, corpus), Theirs(vocabulary, documents)
        times = []
        for turn in range(arguments.rounds + 1):
            mine, my_tokens = ours.ask()
            peer, peer_tokens = theirs.encode()
            if my_tokens != peer_tokens:
                sys.exit(f"the tokens differ: ours {my_tokens}, theirs {peer_tokens}")
            if turn > 0:  # the first turn warms both up
                times.append((mine, peer))
                print(f"  encode: ours {megabytes / mine:7.1f} MB/s   theirs {megabytes / peer:7.1f} MB/s   ratio {peer / mine:.1f}")
        ours.close()
        ratio = statistics.median(peer / mine for mine, peer in times)
        print(f"encode: {my_tokens} tokens each; median ratio theirs/ours {ratio:.1f}")
        mine, peer = train_ours(arguments.tool, corpus, 8192, folder), train_theirs(documents, 8192)
        print(f"train 8,192 tokens: ours {mine:.2f} s (with reading and saving)   theirs {peer:.2f} s   ratio {peer / mine:.1f}")


if __name__ == "__main__":
    main()
