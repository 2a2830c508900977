"""The tiny GPT-2 that the C++ tests and transformers both compute: weights and tokens by formula, no files."""

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

CONFIG = dict(vocab_size=97, n_positions=32, n_embd=32, n_layer=3, n_head=4)
LENGTHS = [7, 19, 32, 1]
LEARNING_RATE, BETAS, EPSILON, WEIGHT_DECAY = 1e-2, (0.9, 0.95), 1e-8, 0.1


def make_model(**overrides):
    config = GPT2Config(**{**CONFIG, **overrides}, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for index, (name, parameter) in enumerate(model.named_parameters()):
            # Neighbouring elements differ enough that no two rows of a matrix are alike.
            value = np.sin(0.7 * np.arange(parameter.numel(), dtype=np.float64) + 1.3 * index)
            value = 1 + 0.1 * value if "ln_" in name and name.endswith("weight") else 0.2 * value
            parameter.copy_(torch.from_numpy(value.astype(np.float32)).view_as(parameter))
    return model


def make_batch(vocab_size=CONFIG["vocab_size"]):
    """Token ids and targets per sequence; every third row has no target, and the last sequence has none at all."""
    tokens, targets = [], []
    for s, length in enumerate(LENGTHS):
        ids = [(31 * s + 17 * i + i * i) % vocab_size for i in range(length)]
        wanted = [ids[i + 1] if i + 1 < length and i % 3 != 1 else -1 for i in range(length)]
        tokens.append(ids)
        targets.append(wanted)
    return tokens, targets


def padded(rows, value):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def forward(model, tokens, targets):
    """Logits per sequence without padding, and the summed loss, from a padded batch with an attention mask."""
    ids, wanted = padded(tokens, 0), padded(targets, -1)
    mask = padded([[1] * len(row) for row in tokens], 0)
    logits = model(input_ids=ids, attention_mask=mask).logits
    loss = torch.nn.functional.cross_entropy(
        logits.view(-1, logits.size(-1)), wanted.view(-1), ignore_index=-1, reduction="sum")
    return [logits[s, : len(row)] for s, row in enumerate(tokens)], loss


def checksums(tensor):
    """Sum, Euclidean norm and a sum with changing signs and sizes: a wrong element or order shows."""
    flat = tensor.detach().double().flatten()
    weights = torch.cos(torch.arange(flat.numel(), dtype=torch.float64))
    return [flat.sum().item(), flat.norm().item(), (flat * weights).sum().item()]


def optimizer_for(model):
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON)
