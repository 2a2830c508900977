"""Writes tests/models/language/gpt2/fixtures/tiny.json: what transformers computes for the tiny model of gpt2_reference.py."""

import json
import pathlib

import torch
import transformers
from gpt2_reference import checksums, forward, make_batch, make_model, optimizer_for


def generated(model, tokens, **options):
    ids = torch.tensor([tokens])
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, max_new_tokens=12, **options)
    return out[0, len(tokens):].tolist()


def main():
    torch.set_num_threads(1)
    tokens, targets = make_batch()
    model = make_model()
    logits, loss = forward(model, tokens, targets)
    loss.backward()
    count = sum(t >= 0 for row in targets for t in row)
    fixture = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "loss": loss.item(),
        "targets": count,
        "last_logits": [rows[-1].tolist() for rows in logits],
        "logits": [checksums(rows) for rows in logits],
        "gradients": {name: checksums(p.grad) for name, p in model.named_parameters()},
    }

    optimizer = optimizer_for(model)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        _, loss = forward(model, tokens, targets)
        (loss / count).backward()
        optimizer.step()
        losses.append(loss.item() / count)
    fixture["adamw_losses"] = losses

    model = make_model()
    prompts = [tokens[0], tokens[1], tokens[2][:11], tokens[3]]
    eos = 84  # greedy search meets it in two of the four
    fixture["prompts"] = prompts
    fixture["eos_token_id"] = eos
    fixture["greedy"] = [generated(model, p, do_sample=False, eos_token_id=eos) for p in prompts]
    fixture["beam"] = {
        str(penalty): [
            generated(model, p, do_sample=False, num_beams=4, length_penalty=penalty, early_stopping=False, eos_token_id=eos)
            for p in prompts]
        for penalty in (0.0, 1.0, 2.0)
    }
    path = pathlib.Path(__file__).parent.parent / "models/language/gpt2/fixtures" / "tiny.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(fixture, indent=1) + "\n")


if __name__ == "__main__":
    main()
