"""Compares frozen matrices in 4 and 8 bits with bitsandbytes, live, on the CPU: the values that it makes of the same weights, those of a
folder that it has quantized, and the loss and the gradients of LoRA beside peft over its Linear4bit.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import tempfile

from comparison import ask, started
from language_parity import ADAMW, ATTENTION, NEW_TOKENS, Case, difference

# Sizes of a matrix's blocks begin and end within rows; a gate and a query of other sizes than what is beside them.
SIZES = dict(hidden_size=128, intermediate_size=320, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2)
SIZES_OFF = 0.01  # the share of blocks whose sizes are so near between two values of the 8-bit map that rounding decides
OF_VALUES, OF_LOSS, OF_GRADIENTS = 1e-6, 1e-6, 2e-6


def quantized(case, folder, form):
    """The folder's model as bitsandbytes has it, and as a folder."""
    import torch
    import transformers

    how = dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float32) \
        if form == "nf4" else dict(load_in_8bit=True)
    model = case.kind.from_pretrained(folder, quantization_config=transformers.BitsAndBytesConfig(**how), device_map="cpu", dtype=torch.float32)
    model.save_pretrained(folder + "-quantized")
    return model.eval()


def values_of(model):
    """What the quantized matrices stand for, by their names."""
    import bitsandbytes
    import torch

    values = {}
    for name, layer in model.named_modules():
        if isinstance(layer, bitsandbytes.nn.Linear4bit):
            values[name + ".weight"] = bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state).to(torch.float32)
        elif isinstance(layer, bitsandbytes.nn.Linear8bitLt):
            values[name + ".weight"] = layer.weight.data.float() * (layer.weight.SCB / 127).unsqueeze(1)
    return values


def compare_values(ours, theirs, form, are_codes_equal):
    """The share of blocks that differ; the others are equal."""
    import torch

    wrong = total = 0
    for name, values in theirs.items():
        mine, other = (t.reshape(-1, 64) for t in (ours[name], values))
        size = other.abs().amax(1)
        off = (mine - other).abs().amax(1) / size
        assert off.max().item() <= 0.02, f"{name}: differs by {off.max().item():.1e} of a block's largest value"
        wrong, total = wrong + (off > OF_VALUES).sum().item(), total + len(off)
    assert wrong <= (0 if are_codes_equal else SIZES_OFF * total), f"{form}: {wrong} of {total} blocks differ"
    return wrong / total


def compare(probe, form, seed):
    import peft
    import torch
    from safetensors.torch import load_file

    case = Case("Llama", SIZES, seed, "float32" if form == "nf4" else "float16")  # to which Linear8bitLt rounds first
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        adapter = case.save(source, {}, dict(target_modules=ATTENTION + ["gate_proj", "down_proj"]))
        base = quantized(case, source, form)
        theirs = values_of(base)
        assert len(theirs) == 7 * SIZES["num_hidden_layers"], sorted(theirs)
        found = {}

        def our_values(of, frozen):
            out = tempfile.mkdtemp(dir=folder)
            ask(probe, of, out, {"adapter": "", "frozen": frozen, "values_only": True})
            with open(os.path.join(out, "model", "config.json"), encoding="utf-8") as file:
                assert "quantization_config" not in json.load(file)
            return load_file(os.path.join(out, "model", "model.safetensors"))

        found["blocks of other sizes"] = compare_values(our_values(source, form), theirs, form, False)
        for frozen in (form, ""):  # of the folder that it has quantized: the same codes, and the same values in float32
            compare_values(our_values(source + "-quantized", frozen), theirs, form, True)
        answer = ask(probe, source + "-quantized", folder,
                     {"sequences": case.sequences, "targets": case.targets, "prompts": [], "new_tokens": NEW_TOKENS, "adamw": ADAMW,
                      "adapter": adapter, "frozen": form})
        if form == "int8":  # Linear8bitLt rounds what it multiplies, too
            base = case.kind.from_pretrained(source, dtype=torch.float32)
            with torch.no_grad():
                for name, values in theirs.items():
                    base.get_parameter(name).copy_(values)
        # train(): in eval() its CPU library computes what needs no gradient in bfloat16.
        case.model = peft.PeftModel.from_pretrained(base, adapter, is_trainable=True).train()
        loss = case.loss()
        loss.backward()
        found["loss"] = abs(answer["loss"] / loss.item() - 1)
        assert found["loss"] <= OF_LOSS, f"{form}: the loss differs by {found['loss']:.1e}"
        gradients = {name.replace(".default", ""): p.grad for name, p in case.model.named_parameters() if p.requires_grad}
        mine = load_file(os.path.join(folder, "gradients", "adapter_model.safetensors"))
        assert mine.keys() == gradients.keys(), sorted(mine.keys() ^ gradients.keys())
        found["gradients"] = difference(*(torch.cat([some[name].flatten() for name in gradients]) for some in (mine, gradients)))
        assert found["gradients"] <= OF_GRADIENTS, f"{form}: the gradients differ by {found['gradients']:.1e}"
    print(f"equal to bitsandbytes: {form}: " + ", ".join(f"{part} {value:.1e}" for part, value in found.items()), flush=True)


def main():
    arguments = started("probe", "bitsandbytes", "peft", "torch", "transformers")
    for seed, form in enumerate(("nf4", "int8")):
        compare(arguments.probe, form, seed)


if __name__ == "__main__":
    main()
