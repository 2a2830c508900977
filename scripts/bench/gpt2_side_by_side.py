"""Trains GPT-2 with `pipeline run` and with transformers + Accelerate (gpt2_peer.py) in turns; see scripts/bench/gpt2.

How turns are taken: side_by_side.py.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from side_by_side import Peer, Pipeline, report, take_turns_all

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
import gpt2_vocabulary  # noqa: E402

SEPARATOR = "\nTL;DR:\n"
MAX_SUMMARY = 64  # tokens


def make_model(folder, arguments):
    """A randomly initialised model as a Hugging Face folder, with GPT-2's own vocabulary and without dropout."""
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

    torch.manual_seed(1)
    if getattr(arguments, "llama", False):  # 94 million parameters
        config = LlamaConfig(hidden_size=640, intermediate_size=1792, num_hidden_layers=12, num_attention_heads=10, vocab_size=50257,
                             tie_word_embeddings=True)
    else:
        config = GPT2Config(n_layer=arguments.layers, n_head=arguments.heads, n_embd=arguments.width, resid_pdrop=0.0, embd_pdrop=0.0,
                            attn_pdrop=0.0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    vocabulary = Path(gpt2_vocabulary.fetch())
    shutil.copy(vocabulary / "encoder.json", folder / "vocab.json")
    shutil.copy(vocabulary / "vocab.bpe", folder / "merges.txt")


class Examples:
    """Pairs as text for the pipeline, and the same as tokens for the peer.

    A sequence is document, separator, summary, end of text; the document is cut so that all fits into `most` tokens. `prompt` is the
    number of tokens before the summary.
    """

    def __init__(self, folder, most):
        from tokenizers import ByteLevelBPETokenizer

        self.tokenizer = ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
        self.end_of_text = self.tokenizer.token_to_id("<|endoftext|>")
        self.separator = self.encode(SEPARATOR)
        self.most = most

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def example(self, pair):
        summary = self.encode(pair["summary"])[:MAX_SUMMARY]
        room = self.most - 1 - len(summary) - len(self.separator)
        prompt = self.encode(pair["document"])[:room] + self.separator
        return {"tokens": prompt + summary + [self.end_of_text], "prompt": len(prompt)}

    def summarization(self, pairs, count, grouped):
        chosen = pairs[:count]
        if grouped:
            chosen = sorted(chosen, key=lambda pair: len(self.example(pair)["tokens"]))
        return [({"document": p["document"], "summary": p["summary"]}, self.example(p)) for p in chosen]

    def language_model(self, pairs, count):
        """Every sequence full: documents of many descriptions. The loss is over all tokens."""
        result, remaining = [], iter(pairs)
        for _ in range(count):
            texts = []
            while sum(len(text) for text in texts) < 12 * self.most:
                texts.append(next(remaining)["document"])
            pair = {"document": "\n".join(texts), "summary": next(remaining)["summary"]}
            example = self.example(pair)
            assert len(example["tokens"]) == self.most, "a document is too short"
            result.append((pair, example))
        return result


def task_in_python(model, all_tokens):
    return f"""[task]
plugin = "python"
file = "{Path(__file__).with_name("causal_lm_task.py")}"
python = "{sys.executable}"
model = "{model}"
all_tokens = {str(all_tokens).lower()}
"""


def task_in_cpp(model, most, all_tokens):
    return f"""[task]
plugin = "summarization"
[task.data]
train = "pairs.jsonl"
[task.tokenizer]
path = "{model}"
[task.sequence]
max_tokens = {most - 1}
max_summary_tokens = {MAX_SUMMARY}
separator = {json.dumps(SEPARATOR)}
loss = "{"all" if all_tokens else "summary"}"
"""


def config_of(arguments, model, most, all_tokens, train, more=""):
    """`most`: tokens of an example, the end of text included, which is a target, not an input. `train`: more lines of [train]."""
    init_from = "" if arguments.python else f'init_from = "{model}"'
    return f"""
[run]
device = "cpu"
cache_dir = "cache"
{task_in_python(model, all_tokens) if arguments.python else task_in_cpp(model, most, all_tokens)}
[optimizer]
lr = 1e-4
beta2 = 0.95
weight_decay = 0.1
[schedule]
kind = "constant"
[train]
{init_from}
global_batch = {arguments.batch}
{train}
[loader]
shuffle = false
[launch]
threads = {arguments.threads}
{more}"""


def write_config(folder, model, arguments, steps, name="bench.toml"):
    # The last step is never reached: a run that ends reports it sooner.
    train = f'precision = "fp32"\nmicro_batch = {arguments.batch}\nclip_grad_norm = 0.0\nmax_steps = {steps + 9}'
    config = folder / name
    config.write_text(config_of(arguments, model, arguments.most, arguments.language_model, train, "[checkpoint]\nbackground = false\n"))
    return config


def peer_command(folder, model, arguments):
    command = [sys.executable, str(Path(__file__).with_name("gpt2_peer.py")), "--model", str(model), "--examples",
               str(folder / "tokens.jsonl"), "--batch", str(arguments.batch), "--threads", str(arguments.threads)]
    return command + ["--language-model"] * arguments.language_model


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench/gpt2", description="pipeline run beside transformers + Accelerate.")
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--grouped", action="store_true", help="examples sorted by length before batching, for both")
    parser.add_argument("--language-model", action="store_true", help="full sequences of 1,024 tokens, loss over all of them")
    parser.add_argument("--python", action="store_true", help="ours is a task in Python, causal_lm_task.py, with the peer's model")
    parser.add_argument("--beside-cpp", action="store_true", help="with --python: the peer is the task in C++")
    parser.add_argument("--llama", action="store_true", help="with --python: a Llama of 94 million parameters")
    parser.add_argument("--batch", type=int, help="examples per step (8; 4 for --language-model, where 8 take the peer beyond 23 GB)")
    parser.add_argument("--most", type=int, help="tokens per example (512; 1024 for --language-model)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each of the two (all cores)")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=2, help="per turn")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    arguments = parser.parse_args()
    arguments.batch = arguments.batch or (4 if arguments.language_model else 8)
    arguments.most = arguments.most or (1024 if arguments.language_model else 512)

    pairs = [json.loads(line) for line in arguments.pairs.read_text().splitlines()]
    random.Random(0).shuffle(pairs)
    steps = arguments.turns * arguments.steps
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder, model = Path(name), Path(name) / "model"
        make_model(model, arguments)
        maker, count = Examples(model, arguments.most), (steps + 1) * arguments.batch
        examples = maker.language_model(pairs, count) if arguments.language_model else maker.summarization(pairs, count, arguments.grouped)
        (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair, _ in examples))
        (folder / "tokens.jsonl").write_text("".join(json.dumps(example) + "\n" for _, example in examples))
        def ours(name="run"):
            config = write_config(folder, model, arguments, steps, f"{name}.toml")
            return Pipeline(folder, [arguments.pipeline, "run", config, "--set", f"run.dir={name}"], name)

        def in_cpp():
            arguments.python = False
            return ours("cpp")

        def padded():
            return Peer("padded", peer_command(folder, model, arguments))

        def padding_free():
            return Peer("padding-free", [*peer_command(folder, model, arguments), "--padding-free"])
        peers = [in_cpp] if arguments.beside_cpp else [padded] if arguments.language_model else [padded, padding_free]
        ours, *theirs = take_turns_all([ours, *peers], arguments.turns, arguments.steps)
        for one in theirs:
            report(ours, one, steps * arguments.batch, sum(len(e["tokens"]) for _, e in examples[arguments.batch :]))


if __name__ == "__main__":
    main()
