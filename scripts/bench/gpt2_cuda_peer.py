"""GPT-2 as its users write it for one device, as the peer of gpt2_cuda.py: torch.compile, SDPA's flash attention, fused AdamW, bf16 autocast
over float32 weights, and a vocabulary padded to 50,304.

Reads requests from stdin, one a line: "N" runs N steps and answers one JSON line with their losses, useful tokens, and tokens with padding.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

IGNORED = -100
PADDED_VOCABULARY = 50304


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        """x: (B, T, C)"""
        shape = x.shape
        q, k, v = (part.view(shape[0], shape[1], self.heads, -1).transpose(1, 2) for part in self.c_attn(self.ln_1(x)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + F.dropout(self.c_proj(y.transpose(1, 2).reshape(shape)), self.dropout, self.training)
        return x + F.dropout(self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")), self.dropout, self.training)


class GPT2(nn.Module):
    def __init__(self, layers, heads, width, positions, dropout):
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(PADDED_VOCABULARY, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens, targets):
        """tokens, targets: (B, T) -> mean loss over the targets that are not IGNORED."""
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        x = F.dropout(x, self.dropout, self.training)
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED)

    def take(self, folder):
        """The weights of a Hugging Face folder, whose matrices are (in, out)."""
        rows = load_file(Path(folder) / "model.safetensors")
        names = {"mlp_proj": "mlp.c_proj", "c_fc": "mlp.c_fc", "c_attn": "attn.c_attn", "c_proj": "attn.c_proj"}
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parts = name.split(".")
                value = rows[".".join(names.get(part, part) for part in parts)]
                if parts[-2] in names and parts[-1] == "weight":
                    value = value.t()
                parameter.zero_()[: value.shape[0]] = value


def batch_of(examples, language_model):
    """Inputs and their targets, the tokens after them: the last token of an example is a target alone."""
    longest = max(len(e["tokens"]) for e in examples) - 1
    inputs, targets = torch.zeros(len(examples), longest, dtype=torch.long), torch.full((len(examples), longest), IGNORED)
    for row, e in enumerate(examples):
        tokens = torch.tensor(e["tokens"])
        count, first = len(tokens) - 1, 0 if language_model else e["prompt"] - 1
        inputs[row, :count] = tokens[:-1]
        targets[row, first:count] = tokens[first + 1 :]
    return inputs, targets


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="Hugging Face folder")
    parser.add_argument("--examples", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--language-model", action="store_true", help="all examples equally long, loss over all tokens")
    arguments = parser.parse_args()

    device = torch.device(arguments.device)
    config = json.loads((Path(arguments.model) / "config.json").read_text())
    torch.manual_seed(1)
    model = GPT2(config["n_layer"], config["n_head"], config["n_embd"], config["n_positions"], arguments.dropout)
    model.take(arguments.model)
    model = model.to(device).train()
    decayed, plain = ([p for p in model.parameters() if (p.dim() >= 2) == matrix] for matrix in (True, False))
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                                  lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
    compiled = torch.compile(model, dynamic=not arguments.language_model)
    with open(arguments.examples) as file:
        examples = [json.loads(line) for line in file]
    at = 0

    def step():
        nonlocal at
        chosen, at = examples[at : at + arguments.batch], (at + arguments.batch) % len(examples)
        inputs, targets = (t.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else t
                           for t in batch_of(chosen, arguments.language_model))
        with torch.autocast(device.type, torch.bfloat16):
            loss = compiled(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach(), sum(len(e["tokens"]) - 1 for e in chosen), inputs.numel()

    print(json.dumps({"ready": True}), flush=True)
    for request in sys.stdin:
        steps = [step() for _ in range(int(request))]
        print(json.dumps({"losses": [loss.item() for loss, _, _ in steps], "tokens": sum(t for _, t, _ in steps),
                          "padded_tokens": sum(p for _, _, p in steps)}), flush=True)


if __name__ == "__main__":
    main()
