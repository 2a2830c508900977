"""Trains GPT-2 124M in bf16 on one device with `pipeline run` and with gpt2_cuda_peer.py in turns; see side_by_side.py.

Prints what the two did, and as its last line one JSON object for scripts/gpu-check. Needs torch, safetensors and tokenizers. Tokens are
inputs: 1,024 of a full sequence, whose last target is one token more.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from gpt2_side_by_side import Examples, config_of
from side_by_side import DevicePipeline, Peer, device_figures, take_turns

ROOT = Path(__file__).resolve().parents[2]
VOCABULARY = 50257
PEAK = 989e12  # FLOP/s of an H100 or H200 in bf16, without sparsity
BEFORE = 5  # steps before the turns: caches of memory have grown, and the peer is compiled for all of its batches, which are four


def make_model(folder, vocabulary, arguments):
    """A randomly initialised GPT-2 as a Hugging Face folder."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    folder.mkdir()
    width, layers = arguments.width, arguments.layers

    def normal(*shape, scale=1.0):
        return torch.randn(*shape) * 0.02 * scale

    into_residual = (2 * layers) ** -0.5
    tensors = {"wte.weight": normal(VOCABULARY, width), "wpe.weight": normal(1024, width), "ln_f.weight": torch.ones(width), "ln_f.bias": torch.zeros(width)}
    for layer in range(layers):
        for norm in ("ln_1", "ln_2"):
            tensors |= {f"h.{layer}.{norm}.weight": torch.ones(width), f"h.{layer}.{norm}.bias": torch.zeros(width)}
        for name, inner, outer, scale in (("attn.c_attn", width, 3 * width, 1), ("attn.c_proj", width, width, into_residual),
                                          ("mlp.c_fc", width, 4 * width, 1), ("mlp.c_proj", 4 * width, width, into_residual)):
            tensors |= {f"h.{layer}.{name}.weight": normal(inner, outer, scale=scale), f"h.{layer}.{name}.bias": torch.zeros(outer)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCABULARY, "n_positions": 1024, "n_embd": width,
        "n_layer": layers, "n_head": arguments.heads, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "bos_token_id": 50256, "eos_token_id": 50256}))
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(vocabulary / name, folder / name)


def flops(example, arguments):
    """What a training step needs for one sequence, as for the usual MFU: what is computed twice counts once.

    Products: 6 for each weight and each token that it is applied to, 2 forward and 4 backward. A layer has 12 width^2 such weights (3 for
    queries, keys and values, 1 behind them, 8 in the MLP); the head has vocabulary x width, applied where there is a target. Attention: 4 width
    for each token and each one before it, half of the square, and twice that backward. A full sequence of GPT-2 124M: 0.798 GFLOP a token.
    """
    inputs, width = len(example["tokens"]) - 1, arguments.width
    targets = len(example["tokens"]) - example["prompt"] if arguments.summaries else inputs
    products = 6 * (12 * arguments.layers * width**2 * inputs + VOCABULARY * width * targets)
    return products + 6 * arguments.layers * width * inputs**2


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipeline", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True, help="folder with GPT-2's vocab.json and merges.txt")
    parser.add_argument("--pairs", type=Path, default=ROOT / ".gpu/data/debian-descriptions/train.jsonl")
    parser.add_argument("--batch", type=int, default=16, help="sequences per step")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--summaries", action="store_true", help="sequences of different lengths, loss over the summary")
    parser.add_argument("--set", action="append", default=[], help="an option of our run")
    parser.add_argument("--device", default="cuda", help="cpu to rehearse")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30, help="per turn")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--most", type=int, default=1024, help="inputs per sequence")
    parser.add_argument("--threads", type=int, default=4)
    parser.set_defaults(python=False)  # of gpt2_side_by_side
    arguments = parser.parse_args()

    pairs = [json.loads(line) for line in arguments.pairs.read_text().splitlines()]
    random.Random(0).shuffle(pairs)
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder, model = Path(name), Path(name) / "model"
        make_model(model, arguments.vocabulary, arguments)
        maker, count = Examples(model, arguments.most + 1), 4 * arguments.batch  # and again from the first
        examples = maker.summarization(pairs, count, False) if arguments.summaries else maker.language_model(pairs, count)
        (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair, _ in examples))
        (folder / "tokens.jsonl").write_text("".join(json.dumps(example) + "\n" for _, example in examples))
        # The last step is never reached: a run that ends reports it sooner. A turn of ours takes two or three steps more.
        steps = BEFORE + arguments.turns * (arguments.steps + 3) + 9
        train = f"precision = \"bf16\"\nmicro_batch = {arguments.batch}\nclip_grad_norm = 1.0\nmax_steps = {steps}"
        config = folder / "bench.toml"
        config.write_text(config_of(arguments, model, arguments.most + 1, not arguments.summaries, train))
        drop = [f"task.language.dropout={arguments.dropout}"]
        ours_command = [str(arguments.pipeline.resolve()), "run", str(config)]
        for setting in ("run.dir=run", f"run.device={arguments.device}", "launch.processes=1", *drop, *arguments.set):
            ours_command += ["--set", setting]
        peer_command = [sys.executable, str(Path(__file__).with_name("gpt2_cuda_peer.py")), "--model", str(model), "--examples",
                        str(folder / "tokens.jsonl"), "--batch", str(arguments.batch), "--dropout", str(arguments.dropout), "--device",
                        arguments.device, *["--language-model"] * (not arguments.summaries)]
        ours, theirs = take_turns(lambda: DevicePipeline(folder, ours_command), lambda: Peer("torch.compile", peer_command),
                                  arguments.turns, arguments.steps, BEFORE)
    batches = [[examples[(step * arguments.batch + i) % count][1] for i in range(arguments.batch)] for step in range(steps)]
    tokens = [sum(len(example["tokens"]) - 1 for example in batch) for batch in batches]
    needed = [sum(flops(example, arguments) for example in batch) for batch in batches]
    print("turns: " + " ".join(f"{a / b:.2f}" for a, b in zip(ours.speeds(tokens), theirs.speeds(tokens))))
    print(json.dumps({**device_figures(ours, theirs, tokens), "MFU": ours.speed(needed) / PEAK, "peer's MFU": theirs.speed(needed) / PEAK}))


if __name__ == "__main__":
    main()
