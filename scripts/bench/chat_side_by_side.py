"""Fine-tunes a language model on conversations with `pipeline run` and with transformers + Accelerate (gpt2_peer.py) in turns, or lets
both write answers; see scripts/bench/chat.

How turns are taken: side_by_side.py.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import Peer, Pipeline, report, take_turns_all

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))
import gpt2_vocabulary  # noqa: E402

TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}"
            "{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
SIZES = dict(hidden_size=640, intermediate_size=1792, num_hidden_layers=12, num_attention_heads=10, tie_word_embeddings=True,
             max_position_embeddings=2048)
MODELS = {"llama": ("LlamaConfig", SIZES), "qwen3": ("Qwen3Config", dict(SIZES, num_key_value_heads=5, head_dim=64))}


def make_model(folder, name):
    """A randomly initialised model as a Hugging Face folder, with GPT-2's vocabulary and ChatML's tokens."""
    import torch
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    vocabulary = Path(gpt2_vocabulary.fetch())
    words = ByteLevelBPETokenizer(str(vocabulary / "encoder.json"), str(vocabulary / "vocab.bpe"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words._tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                                     additional_special_tokens=["<|im_start|>", "<|im_end|>"])
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    kind, sizes = MODELS[name]
    config = getattr(transformers, kind)(**sizes, vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, bos_token_id=None)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    print(f"{name}: {sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters")
    return tokenizer


def make_adapter(folder, model, rank):
    import peft
    import transformers

    config = peft.LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM")
    peft.get_peft_model(transformers.AutoModelForCausalLM.from_pretrained(model), config).save_pretrained(folder)


def conversations(pairs):
    """Two questions about each package, whose answers are its description and its synopsis."""
    for pair in pairs:
        yield [{"role": "user", "content": f"What does {pair['id']} do?"}, {"role": "assistant", "content": pair["document"]},
               {"role": "user", "content": "In one line?"}, {"role": "assistant", "content": pair["summary"]}]


def examples(tokenizer, all_messages, most):
    """Those that fit, with the tokens that have a loss, as transformers finds them."""
    for messages in all_messages:
        made = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        tokens, mask = made["input_ids"][:-1], made["assistant_masks"][:-1]  # without the line's end
        if len(tokens) <= most:
            yield messages, {"tokens": tokens, "labels": [token if is_answer else -100 for token, is_answer in zip(tokens, mask, strict=True)]}


def config_of(arguments, model, data, more):
    return f"""
[run]
device = "cpu"
cache_dir = "cache"
[task]
plugin = "chat"
data = {{ {data} }}
chat.max_tokens = {arguments.most}
generate.max_tokens = {arguments.new}
{'language.lora.init_from = "adapter"' if arguments.lora else ""}
[optimizer]
lr = 1e-4
beta2 = 0.95
weight_decay = 0.1
[schedule]
kind = "constant"
[loader]
shuffle = false
[launch]
threads = {arguments.threads}
[checkpoint]
background = false
[train]
init_from = "{model}"
global_batch = {arguments.batch}
micro_batch = {arguments.batch}
precision = "fp32"
clip_grad_norm = 0.0
{more}"""


def write_lines(path, objects):
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))


def train(arguments, folder, model, tokenizer, pairs):
    steps = arguments.turns * arguments.steps
    chosen = []
    for one in examples(tokenizer, conversations(pairs), arguments.most):
        chosen.append(one)
        if len(chosen) == (steps + 1) * arguments.batch:
            break
    write_lines(folder / "train.jsonl", ({"messages": messages} for messages, _ in chosen))
    write_lines(folder / "tokens.jsonl", (example for _, example in chosen))
    config = folder / "bench.toml"
    # The last step is never reached: a run that ends reports it sooner.
    config.write_text(config_of(arguments, model, 'train = "train.jsonl"', f"max_steps = {steps + 9}\n"))
    peer = [sys.executable, str(Path(__file__).with_name("gpt2_peer.py")), "--model", str(model), "--examples", str(folder / "tokens.jsonl"),
            "--batch", str(arguments.batch), "--threads", str(arguments.threads)]
    if arguments.lora:
        peer += ["--adapter", str(folder / "adapter")]
    ours, *theirs = take_turns_all([lambda: Pipeline(folder, [arguments.pipeline, "run", config, "--set", "run.dir=run"]),
                                    lambda: Peer("padded", peer), lambda: Peer("padding-free", [*peer, "--padding-free"])],
                                   arguments.turns, arguments.steps)
    for one in theirs:
        report(ours, one, steps * arguments.batch, sum(len(e["tokens"]) for _, e in chosen[arguments.batch :]))


def generate(arguments, folder, model, tokenizer, pairs):
    """The same number of new tokens for both, greedily and with a cache; random weights end no text."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(arguments.threads)
    asked = [messages[:3] for messages, _ in zip(conversations(pairs), range(2 * arguments.batch))]
    write_lines(folder / "test.jsonl", ({"messages": messages} for messages in asked))
    config = folder / "bench.toml"
    config.write_text(config_of(arguments, model, 'test = "test.jsonl"', ""))
    theirs = AutoModelForCausalLM.from_pretrained(model).eval()
    theirs.generation_config.eos_token_id = None
    tokenizer.padding_side = "left"
    ratios = []
    for turn in range(arguments.turns):
        begin = time.perf_counter()
        for first in range(0, len(asked), arguments.batch):
            batch = tokenizer.apply_chat_template(asked[first : first + arguments.batch], add_generation_prompt=True, return_dict=True,
                                                  return_tensors="pt", padding=True)
            with torch.inference_mode():
                theirs.generate(**batch, do_sample=False, max_new_tokens=arguments.new, pad_token_id=0)
        their_seconds = time.perf_counter() - begin
        told = subprocess.run([arguments.pipeline, "predict", config, "--checkpoint", model, "--output", folder / f"{turn}.csv"], cwd=folder,
                              capture_output=True, text=True, check=True).stdout
        our_seconds = float(re.search(r"samples in ([0-9.]+) s", told)[1])
        ratios.append(their_seconds / our_seconds)
        print(f"turn {turn + 1}: {len(asked) * arguments.new / our_seconds:7.1f} tokens/s, transformers "
              f"{len(asked) * arguments.new / their_seconds:7.1f}: {ratios[-1]:.2f} times theirs", flush=True)
    print(f"speed {sorted(ratios)[len(ratios) // 2]:.2f} times theirs (median)")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench/chat", description="The chat task beside transformers + Accelerate.")
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--model", choices=list(MODELS), default="llama", help="whose shape (llama)")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="train LoRA of all matrices, beside peft")
    parser.add_argument("--generate", action="store_true", help="write answers instead of training")
    parser.add_argument("--new", type=int, default=64, help="--generate: tokens of each answer (64)")
    parser.add_argument("--batch", type=int, default=8, help="conversations at a time (8)")
    parser.add_argument("--most", type=int, default=512, help="tokens of the longest conversation (512)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each of the two (all cores)")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=2, help="per turn")
    arguments = parser.parse_args()
    pairs = [json.loads(line) for line in arguments.pairs.read_text().splitlines()]
    random.Random(0).shuffle(pairs)
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder, model = Path(name), Path(name) / "model"
        tokenizer = make_model(model, arguments.model)
        if arguments.lora:
            make_adapter(folder / "adapter", model, arguments.lora)
        (generate if arguments.generate else train)(arguments, folder, model, tokenizer, pairs)


if __name__ == "__main__":
    main()
