"""Trains a LLaVA with `pipeline run` and with transformers + Accelerate (llava_peer.py) in turns; see scripts/bench/llava.

How turns are taken: side_by_side.py.
"""

import argparse
import dataclasses
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from llava_peer import write_png
from side_by_side import Peer, Pipeline, report, take_turns

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
import gpt2_vocabulary  # noqa: E402

FROZEN = {"pretrain": ["vision.*", "language.*"], "sft": ["vision.*"]}
LLAMA = {"hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536}  # SmolLM2-135M's


@dataclasses.dataclass
class Shape:
    """LLaVA does not compute the tower's last layer."""

    tower: dict
    vision_layers: int
    language: dict
    language_layers: int


SHAPES = {
    # configs/vlm.toml's
    "small": Shape({"image_size": 64, "patch_size": 8, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512}, 5,
                   {"hidden_size": 192, "num_attention_heads": 6, "num_key_value_heads": 3, "intermediate_size": 512}, 4),
    # CLIP's ViT-B/16
    "base": Shape({"image_size": 224, "patch_size": 16, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}, 12,
                  LLAMA, 30),
    # the ViT-L/14 of LLaVA 1.5
    "large": Shape({"image_size": 336, "patch_size": 14, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}, 24,
                   LLAMA, 30),
}


def make_model(folder, arguments):
    """A randomly initialised LLaVA as a Hugging Face folder, with GPT-2's vocabulary and one more token, for a picture's patches."""
    import torch
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration

    torch.manual_seed(1)
    folder.mkdir()
    vocabulary = Path(gpt2_vocabulary.fetch())
    shutil.copy(vocabulary / "encoder.json", folder / "vocab.json")
    shutil.copy(vocabulary / "vocab.bpe", folder / "merges.txt")
    tokens = len(json.loads((folder / "vocab.json").read_text()))
    shape = SHAPES[arguments.shape]
    vision = CLIPVisionConfig(**shape.tower, num_hidden_layers=shape.vision_layers)
    text = LlamaConfig(**shape.language, num_hidden_layers=arguments.layers, vocab_size=tokens + 1, max_position_embeddings=2048,
                       rms_norm_eps=1e-5, tie_word_embeddings=True, bos_token_id=tokens - 1, eos_token_id=tokens - 1)
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_index=tokens, vision_feature_layer=-2,
                         vision_feature_select_strategy="default", tie_word_embeddings=True)
    LlavaForConditionalGeneration(config).save_pretrained(folder)
    return tokens


def make_samples(folder, arguments, tokens, count):
    """Pictures of smooth noise, and words: a caption each, or a question and an answer."""
    vocabulary = json.loads((folder / "model" / "vocab.json").read_text())
    words = sorted(word[1:] for word in vocabulary if word.startswith("Ġ") and word[1:].isascii() and word[1:].islower() and len(word) > 3)
    pick = random.Random(0)

    def text(least, most):
        return [pick.choice(words) for _ in range(pick.randint(least, most))]

    ours, theirs = [], []
    for i in range(count):
        name = f"{i}.png"
        write_png(folder / name, SHAPES[arguments.shape].tower["image_size"], seed=i)
        question = text(8, 20) if arguments.stage == "sft" else []
        answer = text(*((20, arguments.answer) if arguments.stage == "sft" else (8, 20)))
        turns = [{"from": "human", "value": "<image>" + "".join(f" {word}" for word in question)},
                 {"from": "gpt", "value": "".join(f" {word}" for word in answer)}]
        ours.append({"id": str(i), "image": name, "conversations": turns})

        def ids(of):
            return [vocabulary["Ġ" + word] for word in of]

        theirs.append({"image": name, "before": [tokens - 1], "prompt": ids(question), "answer": ids(answer) + [tokens - 1]})
    (folder / "train.json").write_text(json.dumps(ours))
    (folder / "peer.json").write_text(json.dumps(theirs))
    return theirs


def write_config(folder, arguments, steps):
    # The last step is never reached: a run that ends reports it sooner.
    config = folder / "bench.toml"
    shape = SHAPES[arguments.shape]

    def table(values):
        return "\n".join(f"{key} = {value}" for key, value in values.items())

    config.write_text(f"""
[run]
device = "cpu"
cache_dir = "cache"
[task]
plugin = "vlm"
freeze = {json.dumps(FROZEN[arguments.stage])}
[task.data]
train = "train.json"
[task.tokenizer]
path = "model"
[task.vision]
{table(shape.tower)}
num_hidden_layers = {shape.vision_layers - 1}
[task.language]
{table(shape.language)}
num_hidden_layers = {arguments.layers}
max_position_embeddings = 2048
[task.chat]
template = "plain"
max_tokens = 1024
[optimizer]
lr = 1e-4
beta2 = 0.95
weight_decay = 0.1
[schedule]
kind = "constant"
[train]
init_from = "model"
global_batch = {arguments.batch}
micro_batch = {arguments.batch}
precision = "fp32"
clip_grad_norm = 0.0
max_steps = {steps + 9}
[loader]
shuffle = false
[launch]
threads = {arguments.threads}
[checkpoint]
background = false
""")
    return config


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench/llava", description="pipeline run beside transformers + Accelerate.")
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--stage", choices=list(FROZEN), default="sft",
                        help="pretrain: captions, the projector alone is trained; sft: conversations, the language model, too (sft)")
    parser.add_argument("--batch", type=int, default=4, help="examples per step (4)")
    parser.add_argument("--answer", type=int, default=150, help="sft: tokens of the longest answer (150)")
    parser.add_argument("--shape", choices=list(SHAPES), default="base",
                        help="small: the model of configs/vlm.toml; base: CLIP ViT-B/16 at 224 pixels and SmolLM2-135M's shape; "
                             "large: ViT-L/14 at 336 and the same (base)")
    parser.add_argument("--cached", action="store_true", help="the same examples in each turn, whose pictures ours has seen before the first")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each of the two (all cores)")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=2, help="per turn")
    parser.add_argument("--layers", type=int, help="of the language model (small 4, else 30)")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    arguments.layers = arguments.layers or shape.language_layers

    steps = arguments.turns * arguments.steps
    before = arguments.steps if arguments.cached else 1
    patches = (shape.tower["image_size"] // shape.tower["patch_size"]) ** 2
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder = Path(name)
        tokens = make_model(folder / "model", arguments)
        samples = make_samples(folder, arguments, tokens, (before if arguments.cached else before + steps) * arguments.batch)
        ours_command = [arguments.pipeline, "run", write_config(folder, arguments, steps), "--set", "run.dir=run"]
        peer_command = [sys.executable, str(Path(__file__).with_name("llava_peer.py")), "--folder", name, "--stage", arguments.stage,
                        "--batch", str(arguments.batch), "--threads", str(arguments.threads)]
        ours, theirs = take_turns(lambda: Pipeline(folder, ours_command), lambda: Peer("transformers", peer_command), arguments.turns,
                                  arguments.steps, before)
        seen = samples * arguments.turns if arguments.cached else samples[before * arguments.batch :]
        report(ours, theirs, steps * arguments.batch, sum(patches + len(s["before"]) + len(s["prompt"]) + len(s["answer"]) for s in seen))


if __name__ == "__main__":
    main()
