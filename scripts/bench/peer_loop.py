"""What the peers in Python that train with transformers + Accelerate share: the optimizer, and the loop that side_by_side.Peer asks."""

import itertools
import json
import sys

import torch


def fused_adamw(parameters):
    """As our configurations have it: decay for matrices alone."""
    trained = [p for p in parameters if p.requires_grad]
    return torch.optim.AdamW(
        [{"params": [p for p in trained if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0}],
        lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)


class MuonAndAdamW:
    """As optimizer.kind = "muon" has it: Muon for the matrices of GPT-2's blocks, fused AdamW for the rest."""

    def __init__(self, model):
        hidden = {name: p for name, p in model.named_parameters() if ".h." in name and p.dim() == 2}
        self.parts = [torch.optim.Muon(hidden.values(), lr=1e-4, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
                      fused_adamw(p for name, p in model.named_parameters() if name not in hidden)]

    def step(self):
        for part in self.parts:
            part.step()

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()


def answer_requests(accelerator, model, optimizer, loader):
    """Requests come from stdin, one a line: "N" runs N steps and answers one JSON line with their losses, useful tokens, and tokens with
    padding."""
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    print(json.dumps({"ready": True}), flush=True)
    for request in sys.stdin:
        losses, tokens, padded = [], 0, 0
        for _ in range(int(request)):
            batch = next(batches)
            loss = model(**batch, use_cache=False).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            padded += batch["input_ids"].numel()
            tokens += int(batch["attention_mask"].sum()) if "attention_mask" in batch else batch["input_ids"].numel()
        print(json.dumps({"tokens": tokens, "padded_tokens": padded, "losses": losses}), flush=True)
