from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import pipeline


class CausalLm(pipeline.Task):
    """A causal language model of transformers on the lines of a text file"""

    @dataclass
    class Options:
        init_from: Path = pipeline.option(help="a Hugging Face folder: the model and its tokenizer")
        texts: Path = pipeline.option(help="a folder with train.txt and val.txt")
        max_tokens: int = pipeline.option(512, help="longer texts are cut", minimum=2)

    def open_data(self):
        tokenizer = AutoTokenizer.from_pretrained(self.options.init_from)
        lines = {split: (self.options.texts / f"{split}.txt").read_text().splitlines() for split in ("train", "val")}
        self.samples = {split: [tokenizer(line + tokenizer.eos_token)["input_ids"][:self.options.max_tokens]
                                for line in each if line] for split, each in lines.items()}

    def dataset(self, split):
        return self.samples.get(split)

    def collate(self, samples):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(s) for s in samples], batch_first=True, padding_value=-100)

    def weight(self, batch, samples):  # the tokens that are predicted: the run divides the loss's sum by them
        return (batch[:, 1:] != -100).sum()

    def build_model(self):
        return AutoModelForCausalLM.from_pretrained(self.options.init_from)

    def loss(self, batch):
        logits = self.model(batch.clamp(min=0), attention_mask=(batch != -100).long()).logits[:, :-1]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten(), reduction="sum")

    def export(self, folder):
        self.model.save_pretrained(folder)
