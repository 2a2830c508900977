"""Hugging Face transformers + Accelerate as the peer of gpt2_side_by_side.py and chat_side_by_side.py: dynamic padding to the longest, or
sequences side by side without padding; fused AdamW."""

import argparse
import json

import torch
from accelerate import Accelerator
from peer_loop import MuonAndAdamW, answer_requests, fused_adamw
from transformers import AutoModelForCausalLM

IGNORED = -100


def labels_of(example):
    """The loss is over the summary, or over what an example's labels say."""
    return example["labels"] if "labels" in example else [IGNORED] * example["prompt"] + example["tokens"][example["prompt"]:]


def padding_free_batch(examples):
    """As transformers' DataCollatorWithFlattening makes it: positions begin anew with each sequence, and attention stays within it."""
    return {"input_ids": torch.tensor([[token for e in examples for token in e["tokens"]]]),
            "position_ids": torch.tensor([[i for e in examples for i in range(len(e["tokens"]))]]),
            "labels": torch.tensor([[label for e in examples for label in [IGNORED, *labels_of(e)[1:]]]])}


def collate(examples):
    """Dynamic padding to the longest of the batch."""
    longest = max(len(e["tokens"]) for e in examples)
    ids, mask, labels = [], [], []
    for e in examples:
        padding = longest - len(e["tokens"])
        ids.append(e["tokens"] + [0] * padding)
        mask.append([1] * len(e["tokens"]) + [0] * padding)
        labels.append(labels_of(e) + [IGNORED] * padding)
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask), "labels": torch.tensor(labels)}


def language_model_batch(examples):
    ids = torch.tensor([e["tokens"] for e in examples])
    return {"input_ids": ids, "labels": ids}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, help="Hugging Face folder")
    parser.add_argument("--examples", required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--adapter", help="folder of a PEFT adapter, which alone is trained")
    parser.add_argument("--language-model", action="store_true", help="all examples equally long, loss over all tokens")
    parser.add_argument("--padding-free", action="store_true", help="the sequences of a batch side by side")
    parser.add_argument("--muon", action="store_true", help="for the blocks' matrices; AdamW for the rest")
    arguments = parser.parse_args()

    torch.set_num_threads(arguments.threads)
    accelerator = Accelerator(cpu=True)
    model = AutoModelForCausalLM.from_pretrained(arguments.model)
    if arguments.adapter:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, arguments.adapter, is_trainable=True)
    with open(arguments.examples) as file:
        examples = [json.loads(line) for line in file]
    loader = torch.utils.data.DataLoader(
        examples, batch_size=arguments.batch, shuffle=False, drop_last=True,
        collate_fn=language_model_batch if arguments.language_model else padding_free_batch if arguments.padding_free else collate)
    answer_requests(accelerator, model, MuonAndAdamW(model) if arguments.muon else fused_adamw(model.parameters()), loader)


if __name__ == "__main__":
    main()
