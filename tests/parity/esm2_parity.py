"""Compares our ESM-2 and ESM C with transformers, live: logits, loss, every gradient, and the folder that we save, for randomly initialised models.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import os
import tempfile

from comparison import ask, check, started

TOLERANCE = 2e-5  # of the norm of a tensor, in fp32
SIZES = [
    dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64),
    dict(hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50, token_dropout=False, layer_norm_eps=1e-6),
    dict(hidden_size=320, num_hidden_layers=6, num_attention_heads=20, intermediate_size=1280),  # esm2_t6_8M
    dict(kind="esmc", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64),
    dict(kind="esmc", hidden_size=36, num_hidden_layers=5, num_attention_heads=3, intermediate_size=50),
    dict(kind="esmc", hidden_size=192, num_hidden_layers=36, num_attention_heads=3, intermediate_size=512),  # as deep as the 600M model
]


def check_export(model, saved):
    """transformers loads what we saved, with nothing missing or left over, as what it was."""
    import torch
    from esm2_reference import VOCABULARY, VOCABULARY_OF_ESMC
    from transformers import AutoTokenizer

    again, info = type(model).from_pretrained(saved, output_loading_info=True)
    for kind, names in info.items():
        assert not names, f"{kind} in the folder that we saved: {names}"
    theirs = model.state_dict()
    for name, value in again.state_dict().items():
        assert torch.equal(value, theirs.pop(name)), f"{name} differs in the folder that we saved"
    assert not theirs, f"not in the folder that we saved: {sorted(theirs)}"
    for key, value in model.config.to_dict().items():
        if key not in ("transformers_version", "dtype", "architectures", "_name_or_path"):
            assert again.config.to_dict().get(key) == value, f"{key}: {value!r} became {again.config.to_dict().get(key)!r}"
    tokenizer = AutoTokenizer.from_pretrained(saved)
    name, vocabulary = {"esm": ("EsmTokenizer", VOCABULARY), "esmc": ("EsmcTokenizer", VOCABULARY_OF_ESMC)}[model.config.model_type]
    assert type(tokenizer).__name__ == name and tokenizer.get_vocab() == {token: i for i, token in enumerate(vocabulary)}
    assert tokenizer("MK<mask>X").input_ids == [0, 20, 15, 32, 24, 2] and tokenizer.mask_token_id == 32


def run_probe(probe, source, out, samples, adapter=""):
    return ask(probe, source, out, {"samples": samples, "adapter": adapter})


def compare(probe, size, seed):
    import torch
    from esm2_reference import THEIRS, forward, make_model, make_samples
    from safetensors.torch import load_file

    torch.manual_seed(seed)
    model = make_model(**size)
    if seed == 1:  # as in folders whose frequencies were rounded
        with torch.no_grad():
            model.esm.rotary_embeddings.inv_freq.copy_(model.esm.rotary_embeddings.inv_freq.half().float())
    samples = make_samples(6, 60 if size["hidden_size"] < 200 else 150)
    worst = {}
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source")
        model.save_pretrained(source)
        answer = run_probe(probe, source, folder, samples)
        check_export(model, os.path.join(folder, "model"))
        ours = load_file(os.path.join(folder, "logits.safetensors"))
        gradients = load_file(os.path.join(folder, "gradients", "model.safetensors"))

    logits, labels, loss = forward(model, samples)
    loss.backward()
    at_targets = logits[labels >= 0]
    worst["logits"] = check("logits", ours["logits"], logits, TOLERANCE)
    worst["logits at targets"] = check("logits at targets", ours["target_logits"], at_targets, TOLERANCE)
    log_p = torch.log_softmax(at_targets[:, THEIRS[:20]], dim=1)
    worst["log-probabilities"] = check("log-probabilities of amino acids", ours["log_probabilities"], log_p, TOLERANCE)
    worst["loss"] = check("loss", torch.tensor([answer["loss"]]), loss.detach().view(1), TOLERANCE)
    slopes = {name: check(f"gradient of {name}", gradients[name], parameter.grad, TOLERANCE)
              for name, parameter in model.named_parameters() if "contact_head" not in name}
    name = max(slopes, key=slopes.get)
    worst[f"gradients up to (that of {name})"] = slopes[name]
    print(f"  {sum(p.numel() for p in model.parameters())} parameters, {len(logits)} residues, {(labels >= 0).sum().item()} targets; "
          "differences: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))


def compare_adapter(probe, size, lora, seed):
    """The same with peft's LoRA: its folder read, ours read by peft, and the model that both make of them."""
    import peft
    import torch
    from esm2_reference import forward, make_model, make_samples
    from safetensors.torch import load_file

    torch.manual_seed(seed)
    base, samples = make_model(**size), make_samples(6, 60)
    with tempfile.TemporaryDirectory() as folder:
        source, adapter = os.path.join(folder, "source"), os.path.join(folder, "theirs")
        base.save_pretrained(source)
        model = peft.get_peft_model(base, peft.LoraConfig(r=3, lora_alpha=6, **lora))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.data.add_(0.1 * torch.randn_like(parameter))
        model.save_pretrained(adapter)
        answer = run_probe(probe, source, folder, samples, adapter)
        ours = load_file(os.path.join(folder, "logits.safetensors"))["logits"]
        gradients = load_file(os.path.join(folder, "gradients", "adapter_model.safetensors"))
        again = peft.PeftModel.from_pretrained(type(base).from_pretrained(source), os.path.join(folder, "adapter")).eval()
        merged = type(base).from_pretrained(os.path.join(folder, "model")).eval()
        logits, _, loss = forward(model, samples)
        loss.backward()
        with torch.no_grad():
            worst = {"logits": check("logits", ours, logits, TOLERANCE), "our adapter": check("our adapter", forward(again, samples)[0], logits, TOLERANCE),
                     "merged": check("merged", forward(merged, samples)[0], logits, TOLERANCE),
                     "loss": check("loss", torch.tensor([answer["loss"]]), loss.detach().view(1), TOLERANCE),
                     "moved": (forward(type(base).from_pretrained(source).eval(), samples)[0] - logits).norm() / logits.norm()}
        assert worst["moved"] > 0.01, f"LoRA moves the logits by {worst['moved']:.1e}"
        theirs = {name.replace(".modules_to_save.default", "").replace(".default", ""): p.grad for name, p in model.named_parameters() if p.requires_grad}
        assert gradients.keys() == theirs.keys(), sorted(gradients.keys() ^ theirs.keys())
        worst["gradients up to"] = max(check(f"gradient of {name}", gradients[name], theirs[name], TOLERANCE) for name in theirs)
    print(f"equal to peft {peft.__version__}: {lora}: " + ", ".join(f"{what} {value:.1e}" for what, value in worst.items()))


def main():
    arguments = started("probe", "peft", "torch", "transformers")
    import transformers

    for seed, size in enumerate(SIZES):
        compare(arguments.probe, size, seed)
        print(f"equal to transformers {transformers.__version__}: {size}")
    every = r"esm\.encoder\..*(query|key|value|dense)"
    for seed, (size, lora) in enumerate((
            (SIZES[0], dict(target_modules=["query", "value"])), (SIZES[0], dict(target_modules=every, use_rslora=True)),
            (SIZES[0], dict(target_modules=["key", "attention.output.dense"], layers_to_transform=[1])),
            (SIZES[3], dict(target_modules=["q_proj", "v_proj"])), (SIZES[4], dict(target_modules=r"esmc\..*_proj", use_rslora=True)),
            (SIZES[4], dict(target_modules=["k_proj", "up_proj"], layers_to_transform=[1], modules_to_save=["lm_head"])))):
        compare_adapter(arguments.probe, size, lora, seed)


if __name__ == "__main__":
    main()
