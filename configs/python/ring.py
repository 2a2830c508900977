"""A GAN: two losses in turns, each with parameters and an optimizer of its own. It learns to draw points on a ring."""
import torch
from torch import nn
from torch.nn.functional import softplus

import pipeline


class Ring(pipeline.Task):
    """Draws points on a ring from noise"""
    metrics = {"off_ring": pipeline.Metric("distance from the ring"), "left": pipeline.Metric("share on its left half: 0.5")}

    def sample_count(self, split):
        return 4096 if split == "train" else 512

    def batch(self, split, ids, epoch):
        random = [self.generator(split, epoch, i) for i in ids]
        angles = torch.stack([torch.rand((), generator=r) for r in random]) * 2 * torch.pi
        return torch.stack([angles.cos(), angles.sin()], 1), torch.stack([torch.randn(2, generator=r) for r in random])

    def build_model(self):
        def network(outputs):
            return nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, outputs))
        return nn.ModuleDict({"generator": network(2), "critic": network(1)})

    def losses(self):
        return {"critic": pipeline.Loss(self.critic_loss, "critic"), "generator": pipeline.Loss(self.generator_loss, "generator", every=2)}

    def critic_loss(self, batch):
        points, noise = batch
        drawn = self.model["generator"](noise).detach()
        return (softplus(-self.model["critic"](points)) + softplus(self.model["critic"](drawn))).float().sum()

    def generator_loss(self, batch):
        return softplus(-self.model["critic"](self.model["generator"](batch[1]))).float().sum()

    def evaluate(self, batch):
        drawn = self.model["generator"](batch[1])
        return {"off_ring": (drawn.norm(dim=1) - 1).abs().sum(), "left": (drawn[:, 0] < 0).sum()}
