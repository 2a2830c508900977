"""The peers of protein_side_by_side.py: the encoder-decoder as plain PyTorch (protein_model.py), and ESM-2 of transformers with Accelerate.

Reads requests from stdin, one a line: "N" runs N steps over what protein_batches wrote and answers one JSON line with their losses, useful
tokens, and tokens with padding.
"""

import argparse
import json
import random
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file


class PlainPyTorch:
    """Batches are padded beforehand: loading them costs nothing."""

    def __init__(self, model, steps, make_optimizer, device, precision):
        import protein_model

        def ready(batch):
            """On the device, with how many targets, tokens, and tokens with padding there are."""
            padded = protein_model.pad(batch)
            return {name: value.to(device) for name, value in padded.items()}, len(batch["targets"]), int(padded["valid"].sum()), padded["valid"].numel()

        self.device, self.narrow = device, precision == "bf16"
        self.model = protein_model.EncoderDecoder.load(model).to(device).train()
        self.optimizer = make_optimizer(self.model, self.model.decayed())
        self.steps = iter([[ready(batch) for batch in step] for step in steps])

    def step(self):
        micro_batches = next(self.steps)
        _, targets, tokens, padded = zip(*micro_batches)
        weight, loss_sum = sum(targets), 0.0
        for batch, *_ in micro_batches:
            with torch.autocast(self.device, torch.bfloat16, enabled=self.narrow):
                loss = self.model(batch) / weight
            loss.backward()
            loss_sum += loss.detach()  # read when all steps are done: a device is not waited for
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss_sum, sum(tokens), sum(padded)


class Esm2:
    """EsmForMaskedLM, a DataLoader whose collator pads to the longest of the batch, Accelerator. Every step is one batch.

    shuffle: as many steps, from 2 on, whose examples are put into batches of the same numbers at random; None leaves all as they are.
    """

    def __init__(self, model, steps, make_optimizer, device, precision, shuffle=None):
        from accelerate import Accelerator
        from transformers import AutoTokenizer, DataCollatorForTokenClassification, EsmForMaskedLM

        tokenizer = AutoTokenizer.from_pretrained(model)
        pad = DataCollatorForTokenClassification(tokenizer)
        net = EsmForMaskedLM.from_pretrained(model).train()
        embeddings = net.get_input_embeddings().weight
        optimizer = make_optimizer(net, [p for p in net.parameters() if p.dim() >= 2 and p is not embeddings])

        def collate(examples):
            positions = [e["position_ids"] for e in examples]
            batch = pad([{name: e[name] for name in ("input_ids", "labels")} for e in examples])
            longest = batch["input_ids"].shape[1]
            return {**batch, "position_ids": torch.tensor([p + [0] * (longest - len(p)) for p in positions])}

        examples, batches = [], []
        for (batch,) in steps:
            new = self.examples(batch, tokenizer)
            batches.append(list(range(len(examples), len(examples) + len(new))))
            examples += new
        if shuffle:
            for first in range(2, len(batches), shuffle):
                batches[first : first + shuffle] = shuffled(batches[first : first + shuffle], random.Random(first))
        loader = torch.utils.data.DataLoader(examples, batch_sampler=batches, collate_fn=collate)
        self.accelerator = Accelerator(cpu=device == "cpu", mixed_precision="bf16" if precision == "bf16" else "no")
        self.model, self.optimizer, loader = self.accelerator.prepare(net, optimizer, loader)
        self.batches = iter(loader)

    @staticmethod
    def examples(batch, tokenizer):
        """Each chain is a sequence; positions go by the numbers of the residues, so that those that are missing leave a gap."""
        tokens = torch.tensor(tokenizer.convert_tokens_to_ids([*"ACDEFGHIKLMNPQRSTVWY", "X", "<mask>"]))
        labels = torch.full_like(batch["tokens"], -100)
        labels[batch["target_rows"]] = tokens[batch["targets"]]
        result = []
        for begin, end in zip(batch["starts"][:-1].tolist(), batch["starts"][1:].tolist()):
            assert not batch["chains"][begin:end].any(), "a sample is one chain"
            along = (batch["positions"][begin:end] - batch["positions"][begin] + 1).tolist()
            result.append({"input_ids": [tokenizer.cls_token_id, *tokens[batch["tokens"][begin:end]].tolist(), tokenizer.eos_token_id],
                           "labels": [-100, *labels[begin:end].tolist(), -100],
                           "position_ids": [0, *along, along[-1] + 1]})
        return result

    def step(self):
        batch = next(self.batches)
        loss = self.model(**batch).loss
        self.accelerator.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach(), batch["attention_mask"].sum(), batch["input_ids"].numel()


def shuffled(batches, rng):
    """Batches of the same sizes, of the same numbers at random."""
    numbers = [number for batch in batches for number in batch]
    rng.shuffle(numbers)
    return [[numbers.pop() for _ in batch] for batch in batches]


def read_steps(folder):
    """The batches of each step."""
    steps = {}
    for path in sorted(folder.glob("*.safetensors")):
        steps.setdefault(path.name.split("-")[0], []).append(load_file(path))
    return list(steps.values())


def adamw(settings):
    """make_optimizer(model, decayed) with weight decay for the parameters in `decayed` alone."""
    settings = dict(settings)
    weight_decay = settings.pop("weight_decay")

    def make_optimizer(model, decayed):
        known = {id(p) for p in decayed}
        groups = [{"params": decayed, "weight_decay": weight_decay},
                  {"params": [p for p in model.parameters() if id(p) not in known], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, fused=True, **settings)

    return make_optimizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=Path, required=True, help="the folder that protein_batches wrote")
    parser.add_argument("--esm2", action="store_true")
    parser.add_argument("--shuffle", type=int, help="put the samples of so many steps into batches at random; ESM-2 alone")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--optimizer", type=json.loads, required=True, help="lr, betas, eps, weight_decay")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    what = (arguments.batches / "model", read_steps(arguments.batches), adamw(arguments.optimizer), arguments.device, arguments.precision)
    job = Esm2(*what, arguments.shuffle) if arguments.esm2 else PlainPyTorch(*what)
    print(json.dumps({"ready": True}), flush=True)
    for request in sys.stdin:
        losses, tokens, padded = zip(*(job.step() for _ in range(int(request))))
        print(json.dumps({"losses": [float(loss) for loss in losses], "tokens": int(sum(tokens)), "padded_tokens": sum(padded)}), flush=True)


if __name__ == "__main__":
    main()
