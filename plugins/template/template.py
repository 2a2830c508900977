"""A task in Python: learns y = sin(x) from noisy samples. template.cpp beside it is the same in C++, to the bit."""

from dataclasses import dataclass

import torch

import pipeline


class Network(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden, self.out = torch.nn.Linear(1, width), torch.nn.Linear(width, 1)

    def forward(self, x):
        return self.out(torch.tanh(self.hidden(x)))


class Template(pipeline.Task):
    """Learns a sine from noisy samples"""

    @dataclass
    class Options:
        samples: int = pipeline.option(2000, help="size of the training split; the others have a tenth", minimum=10)
        width: int = pipeline.option(32, help="hidden units of the network", minimum=1)
        noise: float = pipeline.option(0.1, help="standard deviation of the noise on y", minimum=0)

    metrics = {"distance": pipeline.Metric("mean distance from the sine without noise")}
    columns = ("x", "y")

    def sample_count(self, split):
        return self.options.samples if split == "train" else self.options.samples // 10

    def batch(self, split, ids, epoch):
        xs, ys = [], []
        for i in ids:
            random = self.generator("sine", ("train", "val", "test").index(split), i)
            xs.append(torch.rand(1, generator=random) * 6 - 3)
            ys.append(torch.sin(xs[-1]) + torch.randn(1, generator=random) * self.options.noise)
        return torch.stack(xs), torch.stack(ys)

    def build_model(self):
        return Network(self.options.width)

    def layers(self, model):
        return [model.hidden, model.out]

    def loss(self, batch):
        x, y = batch
        return torch.nn.functional.mse_loss(self.model(x), y, reduction="sum")

    def evaluate(self, batch):
        x, _ = batch
        return {"distance": (self.model(x) - torch.sin(x)).abs().sum()}

    def predict(self, batch):
        x, _ = batch
        return zip(x[:, 0].tolist(), self.model(x)[:, 0].tolist())


if __name__ == "__main__":
    pipeline.main(Template)
