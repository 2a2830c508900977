"""transformers and peft on one device, as the peer of language_cuda.py: SDPA's flash attention, fused AdamW. Whole models learn in bf16
autocast over float32 weights, adapters over a base in bf16.

Reads requests from stdin, one a line: "N" runs N steps and answers one JSON line with their losses, useful tokens, and tokens with padding.
"""

import argparse
import json
import sys

import torch
from peer_loop import fused_adamw
from transformers import AutoModelForCausalLM


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="Hugging Face folder")
    parser.add_argument("--examples", required=True, help="all of one length; the loss is over all tokens")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--adapter", help="folder of a PEFT adapter, which alone is trained")
    parser.add_argument("--recompute", action="store_true", help="gradient checkpointing")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()

    device = torch.device(arguments.device)
    base = torch.bfloat16 if arguments.adapter else torch.float32
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=base, attn_implementation="sdpa").to(device)
    if arguments.adapter:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, arguments.adapter, is_trainable=True)
    if arguments.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    optimizer = fused_adamw(model.parameters())
    with open(arguments.examples) as file:
        examples = [json.loads(line)["tokens"] for line in file]
    at = 0

    def step():
        nonlocal at
        tokens = torch.tensor(examples[at : at + arguments.batch], device=device)
        at = (at + arguments.batch) % len(examples)
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach(), tokens.numel()

    print(json.dumps({"ready": True}), flush=True)
    for request in sys.stdin:
        steps = [step() for _ in range(int(request))]
        count = sum(tokens for _, tokens in steps)
        print(json.dumps({"losses": [loss.item() for loss, _ in steps], "tokens": count, "padded_tokens": count}), flush=True)


if __name__ == "__main__":
    main()
