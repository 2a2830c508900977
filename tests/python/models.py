"""Models of the kinds that people bring: with BatchNorm, with weights that are unused or shared, compiled."""

from dataclasses import dataclass

import torch
from torch import nn

import pipeline


class Pictures(pipeline.Task):
    """A convolutional network on noisy stripes"""

    @dataclass
    class Options:
        norm: str = pipeline.option("batch", help="kind of norm", choices=("batch", "group", "frozen"))

    metrics = {"accuracy": pipeline.Metric("share of pictures told apart", better="higher")}

    def dataset(self, split):
        count = {"train": 64, "val": 16}.get(split)
        if count is None:
            return None
        random = self.generator("pictures", len(split))
        classes = torch.arange(count) % 2
        stripes = torch.ones(8).index_fill(0, torch.arange(0, 8, 2), -1).expand(8, 8)
        pictures = torch.stack([stripes if c else stripes.T for c in classes])
        pictures = pictures + torch.randn(count, 8, 8, generator=random)
        return torch.utils.data.TensorDataset(pictures[:, None], classes)

    def build_model(self):
        norm = nn.GroupNorm(2, 8) if self.options.norm == "group" else nn.BatchNorm2d(8)
        return nn.Sequential(nn.Conv2d(1, 8, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 2))

    def eval_modules(self, model):
        return [model[1]] if self.options.norm == "frozen" else []

    def loss(self, batch):
        pictures, classes = batch
        return nn.functional.cross_entropy(self.model(pictures), classes, reduction="sum")

    def evaluate(self, batch):
        pictures, classes = batch
        scores = self.model(pictures)
        return {"accuracy": (scores.argmax(1) == classes).sum(), "margin": scores[:, 1] - scores[:, 0], "class": classes}

    def report(self, values, records):
        if not records:
            return {}
        ones, zeros = (records["margin"][records["class"] == c] for c in (1, 0))
        return {"auc": ((ones[:, None] > zeros).double().mean(), "higher")}

    def show(self, batch):
        return [f"stripes of kind {c}" for c in batch[1].tolist()]


class Average(nn.Module):
    """Divides by a running mean, which it changes behind autograd's back, as F.batch_norm does."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(1))

    def forward(self, x):
        if self.training:
            self.mean.data.mul_(0.9).add_(0.1 * x.detach().abs().mean())
        return x / self.mean


class Averaged(Pictures):
    """The same with a running mean of its own"""

    def build_model(self):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), Average(), nn.ReLU(), nn.Linear(8, 2))


class Recurrent(pipeline.Task):
    """An LSTM with a head that it does not use"""

    def sample_count(self, split):
        return {"train": 64, "val": 16}.get(split, 0)

    def batch(self, split, ids, epoch):
        series = [torch.randn(12, 3, generator=self.generator("series", len(split), i)) for i in ids]
        return {"series": torch.stack(series), "target": torch.stack([s.sum(0) for s in series])}

    def build_model(self):
        return nn.ModuleDict({"lstm": nn.LSTM(3, 16, num_layers=2, batch_first=True, dropout=0.1), "head": nn.Linear(16, 3),
                              "unused": nn.Linear(16, 7)})

    def layers(self, model):
        return [model["lstm"], model["head"]]

    def loss(self, batch):
        outputs, _ = self.model["lstm"](batch["series"])
        return (self.model["head"](outputs[:, -1]) - batch["target"]).square().sum()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.blocks = nn.ModuleList(Block(16) for _ in range(3))
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Tied(pipeline.Task):
    """A head that shares the embedding's weight, and layers"""

    @dataclass
    class Options:
        compile: str = pipeline.option("nothing", help="what torch.compile gets", choices=("nothing", "layers", "model"))
        frozen: str = pipeline.option("", help="parameters that are not trained begin with this")

    def sample_count(self, split):
        return {"train": 64, "val": 16}.get(split, 0)

    def batch(self, split, ids, epoch):
        return torch.stack([torch.randint(0, 20, (6,), generator=self.generator("words", len(split), i)) for i in ids])

    def weight(self, batch, samples):
        return batch.numel()

    def describe_parameter(self, parameter):
        if self.options.frozen and parameter.name.startswith(self.options.frozen):
            parameter.trainable = False

    def build_model(self):
        network = Network()
        if self.options.compile == "layers":
            for block in network.blocks:  # without Inductor, whose code takes half a minute: the whole model has it
                block.compile(backend="aot_eager")
        return torch.compile(network) if self.options.compile == "model" else network

    def loss(self, batch):
        return nn.functional.cross_entropy(self.model(batch).flatten(0, 1), batch.flatten(), reduction="sum")


class Sparse(pipeline.Task):
    """Gradients of an embedding that name the rows they are for"""

    def sample_count(self, split):
        return {"train": 64, "val": 16}.get(split, 0)

    def batch(self, split, ids, epoch):
        return torch.stack([torch.randint(50, (6,), generator=self.generator("words", len(split), i)) for i in ids])

    def build_model(self):
        return nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Linear(8, 1))

    def loss(self, batch):
        return (self.model(batch).sum((1, 2)) - batch.sum(1) / 50).square().sum()
