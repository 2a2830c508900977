"""Learns y = sin(x). Begin with plugins/template/template.py for a task with options, metrics and predictions."""
import torch
from torch import nn

import pipeline


class Sine(pipeline.Task):
    """Learns a sine from noisy samples"""

    def sample_count(self, split):
        return 2000 if split == "train" else 200

    def batch(self, split, ids, epoch):
        random = [self.generator(split, i) for i in ids]  # a sample depends on the run's seed and its id alone
        x = torch.stack([torch.rand(1, generator=r) * 6 - 3 for r in random])
        noise = torch.stack([torch.randn(1, generator=r) for r in random])
        return x, torch.sin(x) + 0.1 * noise

    def build_model(self):
        return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))

    def loss(self, batch):
        x, y = batch
        return (self.model(x) - y).square().sum()  # a sum: the run divides by the number of samples


if __name__ == "__main__":
    pipeline.main(Sine)
