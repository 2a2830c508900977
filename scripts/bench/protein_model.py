"""The encoder-decoder of plugins/models/protein as plain PyTorch: modules, padded batches, masks. See protein_peer.py.

Letters in shapes: B samples, L residues of the longest, V of them that the encoder sees, C width, H heads, P width of the pair networks.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

MASK, TOKENS, AMINO_ACIDS = 21, 22, 20
LOCAL, GAUSSIANS, FARTHEST = 20, 16, 32
HAS_CA, HAS_FRAME = 1, 2
IGNORED = -100


@torch.no_grad()
def pair_features(x):
    """(B, L, L, 32) what two residues look like from each other, and (B, L, L) the class of their offset along the chain."""
    rotation, ca = x["rotation"], x["ca"]
    known = (x["has_ca"].unsqueeze(2) & x["has_ca"].unsqueeze(1)).unsqueeze(-1)
    framed = (x["has_frame"].unsqueeze(2) & x["has_frame"].unsqueeze(1)).unsqueeze(-1)
    to = ca.unsqueeze(1) - ca.unsqueeze(2)  # from i to j
    distance = to.norm(dim=-1, keepdim=True)
    centers = torch.linspace(2, 22, GAUSSIANS, device=ca.device)
    gaussians = torch.exp(-((distance - centers) ** 2) / (2 * 1.25**2))
    direction = to / distance.clamp(min=1e-4)
    from_i = torch.einsum("biac,bijc->bija", rotation, direction)
    from_j = torch.einsum("bjac,bijc->bija", rotation, -direction)
    turn = torch.einsum("biac,bjdc->bijad", rotation, rotation).flatten(3)
    features = torch.cat([gaussians * known, from_i * framed, from_j * framed, turn * framed, (~known).float()], dim=-1)
    offset = (x["positions"].unsqueeze(1) - x["positions"].unsqueeze(2)).clamp(-FARTHEST, FARTHEST) + FARTHEST
    same = x["chains"].unsqueeze(1) == x["chains"].unsqueeze(2)
    return features, torch.where(same, offset, 2 * FARTHEST + 1)


class PairBias(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.layers = layers
        self.weight = nn.Linear(2 * GAUSSIANS, width, bias=False)
        self.offsets = nn.Embedding(2 * FARTHEST + 2, width)
        self.out = nn.Linear(width, layers * heads, bias=False)

    def forward(self, x):
        """For each layer (B, H, L, L), with -inf where there is no residue."""
        features, classes = pair_features(x)
        hidden = F.gelu(self.weight(features) + self.offsets(classes), approximate="tanh")
        bias = self.out(hidden).permute(0, 3, 1, 2)
        bias = bias.masked_fill(~x["valid"][:, None, None, :], float("-inf"))
        return bias.chunk(self.layers, dim=1)


class Layer(nn.Module):
    def __init__(self, width, heads, inner, dropout, epsilon):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width, epsilon), nn.LayerNorm(width, epsilon)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, bias):
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.dropout(self.projection(h.transpose(1, 2).flatten(2)))
        h = F.gelu(self.up(self.mlp_norm(x)), approximate="tanh")
        return x + self.dropout(self.down(h))


class EncoderDecoder(nn.Module):
    def __init__(self, config, dropout=0.0):
        super().__init__()
        width, heads, pairs, epsilon = config["hidden_dim"], config["num_heads"], config["pair_dim"], config["layer_norm_epsilon"]

        def part(count):
            layers = [Layer(width, heads, config["feed_forward_dim"], dropout, epsilon) for _ in range(count)]
            return nn.ModuleDict({"local": nn.Linear(LOCAL, width), "pairs": PairBias(count, pairs, heads), "layers": nn.ModuleList(layers)})

        self.encoder, self.decoder = part(config["num_encoder_layers"]), part(config["num_decoder_layers"])
        self.encoder["tokens"] = nn.Embedding(TOKENS, width)
        self.decoder["input_norm"], self.decoder["input"] = nn.LayerNorm(width, epsilon), nn.Linear(width, width)
        self.mask = nn.Parameter(torch.zeros(width))
        self.norm, self.head = nn.LayerNorm(width, epsilon), nn.Linear(width, AMINO_ACIDS, bias=False)

    def forward(self, x):
        """x: see pad(). The sum of the cross-entropy over the targets."""
        hidden = (x["tokens"] == MASK) | ~x["valid"]
        visible = (~hidden).sum(1)
        order = hidden.int().argsort(dim=1, stable=True)[:, : visible.max()]  # (B, V): those that are seen, in their order
        sample = torch.arange(len(order), device=order.device).unsqueeze(1)
        seen = {name: value[sample, order] for name, value in x.items()}
        seen["valid"] = torch.arange(order.shape[1], device=order.device) < visible.unsqueeze(1)
        h = self.encoder["tokens"](seen["tokens"]) + self.encoder["local"](seen["local"])
        for layer, bias in zip(self.encoder["layers"], self.encoder["pairs"](seen)):
            h = layer(h, bias)

        h = self.decoder["input"](self.decoder["input_norm"](h))
        h = self.mask.expand(*hidden.shape, -1).masked_scatter(~hidden.unsqueeze(-1), h[seen["valid"]].to(self.mask.dtype))
        h = h + self.decoder["local"](x["local"])
        for layer, bias in zip(self.decoder["layers"], self.decoder["pairs"](x)):
            h = layer(h, bias)
        wanted = x["targets"] != IGNORED
        return F.cross_entropy(self.head(self.norm(h[wanted])), x["targets"][wanted], reduction="sum")

    @classmethod
    def load(cls, folder):
        """From a folder that `pipeline export` wrote. Its weights are (in, out)."""
        config = json.loads((Path(folder) / "config.json").read_text())
        model = cls(config)
        renamed = {"decoder.mask": "mask", "head.norm.weight": "norm.weight", "head.norm.bias": "norm.bias"}
        own, given = model.state_dict(), load_file(Path(folder) / "model.safetensors")
        state = {}
        for name, value in given.items():
            name = renamed.get(name, name)
            if name.endswith("pairs.out"):  # (layers, P, H)
                value = value.transpose(1, 2).flatten(0, 1)
            elif name.endswith("pairs.weight"):
                value = value.T
            elif name not in ("head.weight",) and value.dim() == 2 and name.endswith(".weight"):
                value = value.T
            state[name if name in own else name + ".weight"] = value.contiguous()
        model.load_state_dict(state)
        return model

    def decayed(self):
        """Parameters with weight decay: matrices that are not embeddings."""
        return [module.weight for module in self.modules() if isinstance(module, nn.Linear)]


def pad(batch):
    """A packed batch (see protein_batches/batch_writer.cpp) as padded tensors: (B, L) and (B, L, ...)."""
    lengths = batch["starts"].diff()
    valid = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)

    def padded(rows, fill=0):
        out = rows.new_full((*valid.shape, *rows.shape[1:]), fill)
        out[valid] = rows
        return out

    targets = torch.full_like(batch["tokens"], IGNORED)
    targets[batch["target_rows"]] = batch["targets"]
    frames = padded(batch["frames"])
    flags = padded(batch["flags"])
    return {"valid": valid, "tokens": padded(batch["tokens"]), "targets": padded(targets, IGNORED), "local": padded(batch["local"]),
            "rotation": frames[..., :9].unflatten(-1, (3, 3)), "ca": frames[..., 9:], "has_ca": (flags & HAS_CA) != 0,
            "has_frame": (flags & HAS_FRAME) != 0, "positions": padded(batch["positions"]), "chains": padded(batch["chains"])}
