"""Trains a Llama or a Qwen2.5 in bf16 on one device with `pipeline run` and with transformers and peft (language_cuda_peer.py) in turns; see
side_by_side.py. Ours may take part several times, its frozen weights in another form each time.

Prints what the two did, and as its last line one JSON object for scripts/gpu-check. Needs torch, safetensors and tokenizers, and the peer
transformers and peft. Weights are random, made on the device; sequences are full, with GPT-2's tokens, and have their loss over all tokens.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from device_kernels import figures_of, kernels_of_step, write_table
from gpt2_side_by_side import Examples, config_of
from side_by_side import DevicePipeline, Peer, device_figures, take_turns_all

ROOT = Path(__file__).resolve().parents[2]
PEAK = 989e12  # FLOP/s of an H100 or H200 in bf16, without sparsity
BEFORE = 3  # steps before the turns: caches of memory have grown
LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=128256, rope_theta=500000.0, rms_norm_eps=1e-5,
             hidden_act="silu", max_position_embeddings=8192, bos_token_id=50256, eos_token_id=50256)
MODELS = {
    # Shapes of Llama 3.2 1B, Llama 3.1 8B and Qwen2.5 7B; one for a rehearsal.
    "llama-1b": dict(LLAMA, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                     head_dim=64, tie_word_embeddings=True),
    "llama-8b": dict(LLAMA, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                     head_dim=128, tie_word_embeddings=False),
    "qwen2.5-7b": dict(LLAMA, model_type="qwen2", architectures=["Qwen2ForCausalLM"], vocab_size=152064, rope_theta=1000000.0,
                       rms_norm_eps=1e-6, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
                       num_key_value_heads=4, tie_word_embeddings=False, use_sliding_window=False),
    "tiny": dict(LLAMA, vocab_size=51200, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, head_dim=64, tie_word_embeddings=True),
}


def shapes_of(config):
    """Name -> shape of each matrix of a layer, (out, in)."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or width // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    return {"self_attn.q_proj": (queries, width), "self_attn.k_proj": (keys, width), "self_attn.v_proj": (keys, width),
            "self_attn.o_proj": (width, queries), "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width),
            "mlp.down_proj": (width, inner)}


def make_model(folder, config, vocabulary, device):
    """A randomly initialised model as a Hugging Face folder in bf16, a file a few layers."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    generator = torch.Generator(device).manual_seed(1)
    index, part, size = {}, {}, 0

    def normal(*shape):
        return (torch.randn(*shape, generator=generator, device=device) * 0.02).to(torch.bfloat16)

    def write():
        nonlocal part, size
        name = f"model-{len(set(index.values())):05d}.safetensors"
        save_file({key: value.cpu() for key, value in part.items()}, folder / name, metadata={"format": "pt"})
        index.update(dict.fromkeys(part, name))
        part, size = {}, 0

    def add(name, tensor):
        nonlocal size
        part[name] = tensor
        size += tensor.nbytes
        if size > 2 << 30:
            write()

    width = config["hidden_size"]
    add("model.embed_tokens.weight", normal(config["vocab_size"], width))
    for layer in range(config["num_hidden_layers"]):
        of = f"model.layers.{layer}."
        for name, shape in shapes_of(config).items():
            add(f"{of}{name}.weight", normal(*shape))
            if config["model_type"] == "qwen2" and name[-6:] in ("q_proj", "k_proj", "v_proj"):
                add(f"{of}{name}.bias", normal(shape[0]))
        for name in ("input_layernorm", "post_attention_layernorm"):
            add(f"{of}{name}.weight", torch.ones(width, dtype=torch.bfloat16, device=device))
    add("model.norm.weight", torch.ones(width, dtype=torch.bfloat16, device=device))
    if not config["tie_word_embeddings"]:
        add("lm_head.weight", normal(config["vocab_size"], width))
    write()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": "bfloat16"}))
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(vocabulary / name, folder / name)


def make_adapter(folder, config, model, rank):
    """LoRA of all matrices as peft saves it: both begin with the same."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    torch.manual_seed(2)
    tensors = {}
    for layer in range(config["num_hidden_layers"]):
        for name, (out, inner) in shapes_of(config).items():
            of = f"base_model.model.model.layers.{layer}.{name}."
            tensors[of + "lora_A.weight"] = torch.randn(rank, inner) * inner**-0.5
            tensors[of + "lora_B.weight"] = torch.zeros(out, rank)
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(model), "r": rank, "lora_alpha": rank,
        "lora_dropout": 0.0, "bias": "none", "target_modules": sorted({name.rpartition(".")[2] for name in shapes_of(config)})}))


def flops(config, arguments):
    """What a training step needs for one sequence, as for the usual MFU: what is computed twice counts once.

    Products: for each weight and token 2 forward, 2 for the gradient of the input, and 2 for that of the weight, which a frozen one has
    not. Attention: 4 for each channel of the queries, token and one before it, half of the square, and twice that backward.
    """
    weights = config["num_hidden_layers"] * sum(out * inner for out, inner in shapes_of(config).values())
    weights += config["vocab_size"] * config["hidden_size"]
    queries = shapes_of(config)["self_attn.q_proj"][0]
    return (4 if arguments.lora else 6) * weights * arguments.most + 6 * config["num_hidden_layers"] * queries * arguments.most**2


def planned_memory(folder, command):
    """MiB that `pipeline plan` says."""
    told = subprocess.run([command[0], "plan", *command[2:], "--json"], cwd=folder, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise SystemExit(f"plan ended with {told.returncode}\n{told.stdout[-1000:]}{told.stderr[-1000:]}")
    return next(row["memory"]["peak"] for row in json.loads(told.stdout)["strategies"] if row["configured"]) / 2**20


def list_kernels(arguments, folder, command, frozen):
    """What the device does in a step of ours; also as a file."""
    def run(steps, environment):
        shell = subprocess.run([*command, "--set", f"train.max_steps={steps}", "--set", f"run.dir=kernels-of-{steps}", "--fresh"], cwd=folder,
                               capture_output=True, text=True, check=False, env={**os.environ, **environment})
        if shell.returncode != 0:
            raise SystemExit(f"it ended with {shell.returncode}\n{shell.stdout[-1000:]}{shell.stderr[-1000:]}")

    per_step = kernels_of_step(run, arguments.probe, folder)
    write_table(per_step, arguments.kernels / f"kernels-{arguments.model}-{frozen}{'-lora' * bool(arguments.lora)}.csv")
    return figures_of(per_step)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pipeline", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, required=True, help="folder with GPT-2's vocab.json and merges.txt")
    parser.add_argument("--pairs", type=Path, default=ROOT / ".gpu/data/debian-descriptions/train.jsonl")
    parser.add_argument("--model", choices=list(MODELS), default="llama-1b", help="whose shape")
    parser.add_argument("--lora", type=int, default=0, metavar="RANK", help="train LoRA of all matrices; else the whole model")
    parser.add_argument("--recompute", action="store_true", help="compute activations again, both")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    parser.add_argument("--frozen", nargs="+", default=["auto"], help="train.frozen_precision of ours, each in turn; the peer's base is in bf16")
    parser.add_argument("--batch", type=int, default=4, help="sequences per step")
    parser.add_argument("--most", type=int, default=4096, help="inputs per sequence")
    parser.add_argument("--kernels", type=Path, metavar="FOLDER", help="also write there what the device does in a step of ours")
    parser.add_argument("--probe", type=Path, help="list_kernels.so, which tells")
    parser.add_argument("--set", action="append", default=[], help="an option of our run")
    parser.add_argument("--device", default="cuda", help="cpu to rehearse")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8, help="per turn")
    parser.add_argument("--threads", type=int, default=4)
    parser.set_defaults(python=False)  # of gpt2_side_by_side
    arguments = parser.parse_args()

    config = MODELS[arguments.model]
    pairs = [json.loads(line) for line in arguments.pairs.read_text().splitlines()]
    random.Random(0).shuffle(pairs)
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder, model = Path(name), Path(name) / "model"
        make_model(model, config, arguments.vocabulary, arguments.device)
        if arguments.lora:
            make_adapter(folder / "adapter", config, model, arguments.lora)
        count = 4 * arguments.batch  # and again from the first
        examples = Examples(model, arguments.most + 1).language_model(pairs, count)
        (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair, _ in examples))
        (folder / "tokens.jsonl").write_text("".join(json.dumps(example) + "\n" for _, example in examples))
        # The last step is never reached: a run that ends reports it sooner. A turn of ours takes two or three steps more.
        steps = BEFORE + arguments.turns * (arguments.steps + 3) + 9
        train = (f"precision = \"bf16\"\nmicro_batch = {arguments.batch}\nclip_grad_norm = 1.0\nmax_steps = {steps}\n"
                 f"activation_checkpointing = {str(arguments.recompute).lower()}")
        file = folder / "bench.toml"
        file.write_text(config_of(arguments, model, arguments.most + 1, True, train))
        lora = [f"task.language.lora.init_from={folder / 'adapter'}"] if arguments.lora else []

        def ours_command(frozen):
            command = [str(arguments.pipeline.resolve()), "run", str(file)]
            for setting in (f"run.dir=run-{frozen}", f"run.device={arguments.device}", "launch.processes=1", "checkpoint.every=0",
                            f"train.frozen_precision={frozen}", *lora, *arguments.set):
                command += ["--set", setting]
            return command

        peer_command = [sys.executable, str(Path(__file__).with_name("language_cuda_peer.py")), "--model", str(model), "--examples",
                        str(folder / "tokens.jsonl"), "--batch", str(arguments.batch), "--device", arguments.device,
                        *["--adapter", str(folder / "adapter")][: 2 * bool(arguments.lora)], *["--recompute"] * arguments.recompute]
        planned = [planned_memory(folder, ours_command(frozen)) for frozen in arguments.frozen]
        starts = [partial(DevicePipeline, folder, ours_command(frozen), f"run-{frozen}") for frozen in arguments.frozen]
        if not arguments.alone:
            starts.append(partial(Peer, "transformers", peer_command))
        contestants = take_turns_all(starts, arguments.turns, arguments.steps, BEFORE)
        ours, peers = contestants[: len(planned)], contestants[len(planned) :]
        seen = [list_kernels(arguments, folder, ours_command(frozen), frozen) for frozen in arguments.frozen * bool(arguments.kernels)]
        allocated = [max(json.loads(line).get("device_memory", 0) for line in one.lines()) / 2**20 for one in ours]
    tokens = [arguments.batch * arguments.most] * (steps + 9)
    needed = [arguments.batch * flops(config, arguments)] * (steps + 9)
    figures = {}
    for one in peers:
        figures = {**device_figures(ours[0], one, tokens), "peer's MFU": one.speed(needed) / PEAK}
    for one, frozen, plan, most in zip(ours, arguments.frozen, planned, allocated):
        for peer in peers:
            print(f"{frozen}, turns: " + " ".join(f"{a / b:.2f}" for a, b in zip(one.speeds(tokens), peer.speeds(tokens))))
        those = {"tokens/s": one.speed(tokens), "MiB": one.device, "MFU": one.speed(needed) / PEAK, "planned MiB": plan, "allocated MiB": most,
                 "first loss": one.losses[0], "last loss": one.losses[-1]}
        those |= seen.pop(0) if seen else {}
        figures = {**{(name if one is ours[0] else f"{frozen}: {name}"): value for name, value in those.items() if value}, **figures}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
