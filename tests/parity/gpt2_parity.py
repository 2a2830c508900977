"""Compares our GPT-2 with transformers, live: logits, loss, every gradient, ten steps of AdamW, greedy and beam search, and the folder
that we save, for randomly initialised models.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import os
import tempfile

from comparison import ask, started

ADAMW = {"steps": 10, "lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1}
SIZES = [
    dict(vocab_size=1000, n_positions=128, n_embd=64, n_layer=4, n_head=4),
    dict(vocab_size=517, n_positions=200, n_embd=96, n_layer=2, n_head=3, n_inner=160, layer_norm_epsilon=1e-6),
]
NEW_TOKENS = 16


def check(what, ours, theirs, tolerance, scale=None):
    scale = abs(theirs) if scale is None else scale
    assert abs(ours - theirs) <= tolerance * scale, f"{what}: ours {ours!r}, transformers {theirs!r}, tolerance {tolerance * scale!r}"


def check_sums(what, ours, theirs, tolerance):
    for i in range(3):
        check(f"{what}, checksum {i}", ours[i], theirs[i], tolerance, theirs[1])  # against the norm


def compare(probe, size, seed):
    import torch
    from gpt2_reference import checksums, forward
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(seed)
    eos = size["vocab_size"] - 1
    ends = [eos, *range(0, eos, 9)]  # as a chat model has several; so many that some are met
    config = GPT2Config(**size, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=eos, eos_token_id=eos)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # biases and norms that are not 0 and 1; larger weights, so that texts differ
            parameter.mul_(4).add_(torch.randn_like(parameter) * 0.05) if parameter.dim() == 2 else parameter.add_(
                torch.randn_like(parameter) * 0.1)
    lengths = torch.randint(1, size["n_positions"], (6,)).tolist()
    tokens = [torch.randint(0, eos, (length,)).tolist() for length in lengths]
    targets = [[t if i % 4 else -1 for i, t in enumerate(row[1:])] + [-1] for row in tokens]
    prompts = [row[:NEW_TOKENS] for row in tokens]

    with tempfile.TemporaryDirectory() as folder:
        source, saved = os.path.join(folder, "source"), os.path.join(folder, "saved")
        model.save_pretrained(source)
        os.mkdir(saved)
        request = {"tokens": tokens, "targets": targets, "prompts": prompts, "eos_token_id": ends, "max_new_tokens": NEW_TOKENS,
                   "adamw": ADAMW}
        ours = ask(probe, source, saved, request)
        again = GPT2LMHeadModel.from_pretrained(saved)
        for (name, a), b in zip(model.state_dict().items(), again.state_dict().values()):
            assert torch.equal(a, b), f"{name} differs in the folder that we saved"
        for key in size:
            assert getattr(again.config, key) == getattr(config, key), key

    logits, loss = forward(model, tokens, targets)
    loss.backward()
    check("loss", ours["loss"], loss.item(), 1e-6)
    for s, rows in enumerate(logits):
        check_sums(f"logits of sequence {s}", ours["logits"][s], checksums(rows), 3e-6)
    for name, parameter in model.named_parameters():
        check_sums(f"gradient of {name}", ours["gradients"][name], checksums(parameter.grad), 3e-5)

    for beams, ours_tokens in ((1, ours["greedy"]), (4, ours["beam"])):
        for prompt, mine in zip(prompts, ours_tokens):
            ids = torch.tensor([prompt])
            with torch.no_grad():
                out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False,
                                     num_beams=beams, length_penalty=1.0, early_stopping=False, pad_token_id=eos, eos_token_id=ends)
            theirs = out[0, len(prompt):].tolist()
            theirs = theirs[: min((theirs.index(end) for end in ends if end in theirs), default=None)]
            assert mine == theirs, f"{beams} beams, prompt {prompt}: ours {mine}, transformers {theirs}"

    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": ADAMW["weight_decay"]}, {"params": plain, "weight_decay": 0.0}],
                                  lr=ADAMW["lr"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["eps"], fused=True)
    count = sum(t >= 0 for row in targets for t in row)
    for step in range(ADAMW["steps"]):
        optimizer.zero_grad()
        _, loss = forward(model, tokens, targets)
        check(f"loss after {step} steps of AdamW", ours["adamw_losses"][step], loss.item() / count, 1e-5 if step else 1e-6)
        (loss / count).backward()
        optimizer.step()


def main():
    arguments = started("probe", "torch", "transformers")
    import transformers

    for seed, size in enumerate(SIZES):
        compare(arguments.probe, size, seed)
        print(f"equal to transformers {transformers.__version__}: {size}")


if __name__ == "__main__":
    main()
