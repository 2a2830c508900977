"""The examples of gpt2_side_by_side.py and distributed_side_by_side.py as a task in Python: what a user of transformers would write."""
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

import pipeline


class CausalLm(pipeline.Task):
    """A causal language model of transformers on tokens"""

    @dataclass
    class Options:
        model: Path = pipeline.option(help="a Hugging Face folder")
        all_tokens: bool = pipeline.option(False, help="the loss is over the prompt, too")

    def open_data(self):
        self.examples = [json.loads(line) for line in Path("tokens.jsonl").read_text().splitlines()]

    def dataset(self, split):
        return self.examples if split == "train" else None

    def collate(self, samples):
        def padded(rows, value):
            return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)
        ids = [sample["tokens"] for sample in samples]
        prompts = [0 if self.options.all_tokens else sample["prompt"] for sample in samples]
        return {"input_ids": padded(ids, 0), "attention_mask": padded([[1] * len(row) for row in ids], 0),
                "labels": padded([[-100] * prompt + row[prompt:] for prompt, row in zip(prompts, ids)], -100)}

    def weight(self, batch, samples):
        return (batch["labels"][:, 1:] != -100).sum()

    def build_model(self):
        return AutoModelForCausalLM.from_pretrained(self.options.model)

    def loss(self, batch):
        return self.model(**batch, use_cache=False, num_items_in_batch=1).loss
