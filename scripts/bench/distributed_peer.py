"""One rank of PyTorch's own ways to train on several processes, as a peer of distributed_side_by_side.py: transformers' GPT-2, fused AdamW, Gloo.

Rank and world come from the environment, as torchrun would give them. Reads requests from stdin, one a line: "N" runs N steps and answers one
JSON line with their losses and seconds.
"""

import argparse
import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from transformers import GPT2LMHeadModel, logging

IGNORED = -100
ADAMW = {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "fused": True}


def groups(model):
    return [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]


def shard(model, world, reshard):
    """A unit is a block; the embeddings stay with the root, as in PyTorch's own examples."""
    mesh = init_device_mesh("cpu", (world,))
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
    return fully_shard(model, mesh=mesh, reshard_after_forward=reshard)


def prepare(kind, model, world):
    """The model and the optimizer of a peer; gradients as views of their buckets, which is what takes least memory."""
    if kind.startswith("fsdp"):
        model = shard(model, world, reshard=kind == "fsdp2")
    elif kind != "single":
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    if kind == "zero":
        return model, ZeroRedundancyOptimizer(groups(model), optimizer_class=torch.optim.AdamW, **ADAMW)
    return model, torch.optim.AdamW(groups(model), **ADAMW)


def collate(examples):
    """Dynamic padding to the longest of the micro-batch; the loss is over what follows the prompt."""
    longest = max(len(e["tokens"]) for e in examples) - 1
    ids, mask, labels = [], [], []
    for e in examples:
        padding = longest + 1 - len(e["tokens"])
        ids.append(e["tokens"][:-1] + [0] * padding)
        mask.append([1] * (len(e["tokens"]) - 1) + [0] * padding)
        labels.append(([IGNORED] * e["prompt"] + e["tokens"][e["prompt"]:])[1:] + [IGNORED] * padding)
    return torch.tensor(ids), torch.tensor(mask), torch.tensor(labels)


class Rank:
    def __init__(self, arguments):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if self.world > 1:
            dist.init_process_group("gloo")
        model = GPT2LMHeadModel.from_pretrained(arguments.model, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        model.train()
        self.model, self.optimizer = prepare(arguments.kind, model, self.world)
        with open(arguments.examples) as file:
            self.examples = [json.loads(line) for line in file]
        self.batch, self.micro, self.next = arguments.batch, arguments.micro_batch, 0

    def share(self):
        """This rank's micro-batches of the next step."""
        own = self.batch // self.world
        first = self.next + self.rank * own
        self.next = (self.next + self.batch) % len(self.examples)
        return [collate(self.examples[i:i + self.micro]) for i in range(first, first + own, self.micro)]

    def sum(self, value):
        if self.world > 1:
            dist.all_reduce(value)
        return value.item()

    def loss(self, micro_batch, total, last):
        ids, mask, labels = micro_batch
        wait = isinstance(self.model, DistributedDataParallel) and not last
        with self.model.no_sync() if wait else contextlib.nullcontext():
            logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
            del logits
            (loss * self.world / total).backward()  # they all take the mean over the ranks
        return loss.detach()

    def step(self):
        share = self.share()
        total = self.sum(torch.tensor(float(sum((labels != IGNORED).sum() for _, _, labels in share))))
        loss = sum(self.loss(micro_batch, total, micro_batch is share[-1]) for micro_batch in share)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return self.sum(loss.double()) / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["single", "ddp", "zero", "fsdp2-keep", "fsdp2"], required=True)
    parser.add_argument("--model", required=True, help="Hugging Face folder")
    parser.add_argument("--examples", required=True)
    parser.add_argument("--batch", type=int, required=True, help="examples per step, of all ranks")
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    logging.disable_progress_bar()
    rank = Rank(arguments)
    for request in sys.stdin:
        losses, seconds = [], []
        for _ in range(int(request)):
            begin = time.perf_counter()
            losses.append(rank.step())
            seconds.append(time.perf_counter() - begin)
        print(json.dumps({"losses": losses, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
