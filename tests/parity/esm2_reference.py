"""ESM-2 and ESM C in transformers, and proteins in our numbers: what esm2_parity.py compares with."""

import tempfile

import torch
from transformers import EsmcConfig, EsmcForMaskedLM, EsmConfig, EsmForMaskedLM, EsmcTokenizer, EsmTokenizer

# Ours: amino acids by letter, then the unknown one and the mask.
OURS = [*"ACDEFGHIKLMNPQRSTVWY", "X", "<mask>"]
AMINO_ACIDS, UNKNOWN, MASK = 20, 20, 21
VOCABULARY = ["<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>"]
CLS, PAD, EOS = 0, 1, 2
VOCABULARY_OF_ESMC = [token if token != "<null_1>" else "|" for token in VOCABULARY]
THEIRS = [VOCABULARY.index(token) for token in OURS]


def make_model(kind="esm", **size):
    """Randomly initialised, but biases and norms are not 0 and 1, and weights are larger than before training."""
    if kind == "esmc":
        model = EsmcForMaskedLM(EsmcConfig(**size)).eval()
    else:
        model = EsmForMaskedLM(EsmConfig(**{
            **dict(vocab_size=33, mask_token_id=32, pad_token_id=1, position_embedding_type="rotary", token_dropout=True,
                   emb_layer_norm_before=False, layer_norm_eps=1e-5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
            **size})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(2).add_(torch.randn_like(parameter) * 0.02)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def save_model(folder, kind, **size):
    """A model in a folder with its tokenizer, as it is read from there."""
    model = make_model(kind, **size)
    model.save_pretrained(folder)
    if kind == "esmc":
        EsmcTokenizer().save_pretrained(folder)
    else:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as vocabulary:
            vocabulary.write("\n".join(VOCABULARY))
            vocabulary.flush()
            EsmTokenizer(vocabulary.name).save_pretrained(folder)
    return type(model).from_pretrained(folder).eval()


def make_samples(count, longest):
    """Samples of one to three chains, some with gaps; 15% of the residues are targets, of which 80% are masked and 10% are others."""
    samples = []
    for _ in range(count):
        chains = []
        for _ in range(torch.randint(1, 4, ()).item()):
            length = torch.randint(1, longest + 1, ()).item()
            tokens = torch.randint(0, UNKNOWN + 1, (length,))
            draw, what = torch.rand(length), torch.rand(length)
            wanted = (draw < 0.15) & (tokens < AMINO_ACIDS)
            other = torch.where(what < 0.9, torch.randint(0, AMINO_ACIDS, (length,)), tokens)
            shown = torch.where(what < 0.8, torch.full_like(tokens, MASK), other)
            steps = torch.randint(1, 4, (length,)) if torch.rand(()) < 0.3 else torch.ones(length, dtype=torch.long)
            chains.append({"tokens": torch.where(wanted, shown, tokens).tolist(),
                           "targets": torch.where(wanted, tokens, torch.full_like(tokens, -1)).tolist(),
                           "positions": (torch.cumsum(steps, 0) - 1).tolist()})
        samples.append(chains)
    return samples


def forward(model, samples):
    """Logits of all residues, one after another, the targets, and the summed loss, from one padded batch with an attention mask."""
    chains = [chain for sample in samples for chain in sample]
    longest = max(len(chain["tokens"]) for chain in chains) + 2
    shape = (len(chains), longest)
    ids, mask = torch.full(shape, PAD), torch.zeros(shape, dtype=torch.long)
    positions, labels = torch.zeros(shape, dtype=torch.long), torch.full(shape, -100)
    residues = torch.zeros(shape, dtype=torch.bool)
    for row, chain in enumerate(chains):
        length, first = len(chain["tokens"]), chain["positions"][0]
        ids[row, :length + 2] = torch.tensor([CLS, *(THEIRS[t] for t in chain["tokens"]), EOS])
        along = [p - first + 1 for p in chain["positions"]]
        positions[row, :length + 2] = torch.tensor([0, *along, along[-1] + 1])
        labels[row, 1:length + 1] = torch.tensor([THEIRS[t] if t >= 0 else -100 for t in chain["targets"]])
        mask[row, :length + 2] = 1
        residues[row, 1:length + 1] = True
    plain = torch.arange(longest).expand(shape)
    given = {} if torch.equal(positions[mask.bool()], plain[mask.bool()]) else {"position_ids": positions}
    out = model(input_ids=ids, attention_mask=mask, labels=labels, **given)
    return out.logits[residues], labels[residues], out.loss * (labels >= 0).sum()
