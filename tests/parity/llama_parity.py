"""Compares our Llama with transformers' LlamaForCausalLM, live: logits of folders of one and of several files, with positions that are
scaled, with low-rank additions; and the folder that we save. vlm_parity.py compares loss and gradients.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TOLERANCE = 1e-5  # of the norm of the logits, in fp32
CONFIG = dict(vocab_size=131, hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
              max_position_embeddings=512)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
# What it is, its configuration, options of save_pretrained, matrices with additions.
MODELS = [
    ("plain", {}, {}, []),
    ("shards", dict(tie_word_embeddings=True), dict(max_shard_size="40KB"), []),
    ("llama3 positions", dict(rope_parameters=LLAMA3, head_dim=16), dict(max_shard_size="60KB"), []),
    ("linear positions", dict(rope_parameters=dict(rope_type="linear", factor=2.5, rope_theta=10000.0)), {}, []),
    ("additions to attention", {}, {}, ["q_proj", "k_proj", "v_proj", "o_proj"]),
    ("additions to all", {}, {}, ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]),
    ("additions to some", {}, {}, ["v_proj", "up_proj"]),
]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def logits_of(model, sequences):
    import torch

    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([tokens])).logits[0] for tokens in sequences])


def check(what, ours, theirs):
    norm = theirs.double().norm().item()
    difference = (ours.double() - theirs.double()).norm().item() / norm
    assert difference <= TOLERANCE, f"{what}: differs by {difference:.2e} of its norm {norm:.3g}, tolerance {TOLERANCE}"
    return difference


def make_model(options, seed):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG, **options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms that are not 1
            parameter.mul_(3) if parameter.dim() >= 2 else None
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def compare(probe, what, options, saving, additions, seed):
    import torch
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM

    model = make_model(options, seed)
    sequences = [torch.randint(0, CONFIG["vocab_size"], (length,)).tolist() for length in (300, 1, 40)]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        model.save_pretrained(source, **saving)
        shards = [name for name in os.listdir(source) if name.endswith(".safetensors")]
        assert (len(shards) > 2) == bool(saving), shards
        subprocess.run([probe, source, folder], input=json.dumps({"sequences": sequences, "lora": additions}), text=True, check=True,
                       env={**os.environ, "OMP_NUM_THREADS": "1"})
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        again, info = LlamaForCausalLM.from_pretrained(os.path.join(folder, "model"), output_loading_info=True)
    for kind, names in info.items():
        assert not names, f"{kind} in the folder that we saved: {names}"
    theirs, saved = logits_of(model, sequences), logits_of(again.eval(), sequences)
    differences = {"logits of the folder that we saved": check("logits of our folder", saved, ours)}
    if additions:
        moved = (ours - theirs).norm().item() / theirs.norm().item()
        assert moved > 0.01, f"the additions move the logits by {moved:.2e}"
    else:
        differences["logits"] = check("logits", ours, theirs)
    print(f"equal to transformers: {what}: " + ", ".join(f"{name} {value:.1e}" for name, value in differences.items()), flush=True)


def main():
    if wanted := os.environ.pop("PIPELINE_PYTHON", None):
        os.execv(wanted, [wanted] + sys.argv)
    parser = argparse.ArgumentParser()
    parser.add_argument("--probe", required=True, help="the program llama_probe")
    arguments = parser.parse_args()
    try:
        import torch
        import transformers
    except ImportError as error:
        skip(f"{error}: set PIPELINE_PYTHON to a Python with tests/parity/requirements.txt")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # small models: threads only wait for each other
    for seed, (what, options, saving, additions) in enumerate(MODELS):
        compare(arguments.probe, what, options, saving, additions, seed)


if __name__ == "__main__":
    main()
