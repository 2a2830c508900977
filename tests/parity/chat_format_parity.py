"""Compares the tokens of conversations with transformers' apply_chat_template, live: templates of the shapes that models are published
with, on tokenizers of the kinds that they have; and which tokens an answer is, with the mask that transformers makes of {% generation %},
or where a template has none, with the text that it adds for the answer.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import subprocess
import sys
import tempfile
import time

import chat_tokenizers
from comparison import started


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "Be brief, and say it in words."}
CONVERSATIONS = [
    [user("What is this?"), assistant("A cat.")],
    [SYSTEM, user("  Which\ntext? "), assistant("It's text; 12 words of it.\n"), user("And\nnow?"), assistant("Nothing, as before.")],
    [user("a"), assistant("a"), user("a"), assistant("a"), user("assistant"), assistant("a")],  # what the template says, too
    [user("über 猫 👍🏽"), assistant("e\u0301té ﬁ"), user("x"), assistant("  indented\n\n  twice")],
    [SYSTEM, user("Think"), assistant("<think>\nhm, a\n</think>\n\nYes"), user("again"), assistant("<think>\nb\n</think>\n\nNo")],
    [user("weather?"), {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "get", "arguments": {"at": "Bonn"}}}]},
     {"role": "tool", "content": "21"}, assistant("Warm.")],
    [user("no answer yet")],
]
# Template, kind of tokenizer, its special tokens besides its own, and what ends an answer.
CASES = [
    ("turns", "qwen2", [], "<|im_end|>"),
    ("turns", "smol_lm", [], "<|im_end|>"),
    ("thoughts", "qwen2", [], "<|im_end|>"),
    ("thoughts", "qwen2", ["<think>", "</think>", "<tool_call>", "</tool_call>"], "<|im_end|>"),
    ("headers", "llama3", ["<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>"], "<|eot_id|>"),
    ("brackets", "sentence_piece", [], "</s>"),
    ("turns", "sentence_piece", ["<|im_start|>", "<|im_end|>"], "<|im_end|>"),
]


def ids_of(tokenizer, messages, **options):
    return list(tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **options)["input_ids"])


def compare(probe, template, kind, special, end, failures):
    source = chat_tokenizers.template(template)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = chat_tokenizers.save(kind, special, end, source, folder)
        asked, expected = [], []
        for messages in CONVERSATIONS:
            if kind == "smol_lm" and not all(message["content"].isascii() for message in messages):
                continue  # it leaves out what it has no token for
            for prompt in (False, True):
                try:
                    ids = ids_of(tokenizer, messages, add_generation_prompt=prompt)
                except Exception as error:
                    ids = str(error)
                asked.append({"messages": messages, "prompt": prompt})
                expected.append(ids)
        lines = "".join(json.dumps(one) + "\n" for one in asked)
        said = subprocess.run([probe, folder, str(int(time.time()))], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
        answers = 0
        for one, ids, ours in zip(asked, expected, map(json.loads, said), strict=True):
            name = f"{template}, {kind}: {one}"
            if isinstance(ids, str) or "error" in ours:
                if not (isinstance(ids, str) and "error" in ours):
                    failures.append(f"{name}\n  theirs {ids}\n  ours   {ours}")
                continue
            if ours["tokens"] != ids and ours["tokens"] != ids + [tokenizer.eos_token_id]:
                failures.append(f"{name}\n  theirs {ids}\n  ours   {ours['tokens']}")
                continue
            if one["prompt"]:
                continue
            if "{% generation %}" in source:
                mask = tokenizer.apply_chat_template(one["messages"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True)["assistant_masks"]
                if [int(number >= 0) for number in ours["answer_of"]] != list(mask):
                    failures.append(f"{name}\n  their mask {mask}\n  ours       {ours['answer_of']}")
            for number, message in enumerate(one["messages"]):
                learnt = [token for token, of in zip(ours["tokens"], ours["answer_of"]) if of == number]
                text = tokenizer.decode(learnt)
                if message["role"] != "assistant":
                    wanted = learnt == []
                else:
                    last = message["content"].split("</think>")[-1].strip()
                    wanted = text.endswith(end) and text.removesuffix(end).strip().endswith(tokenizer.decode(tokenizer.encode(last, add_special_tokens=False)).strip())
                    wanted = wanted and (template == "thoughts" or "tool_calls" in message or len(text.split()) <= len((message["content"] + " " + end).split()) + 1)
                    answers += 1
                if not wanted:
                    failures.append(f"{name}\n  what message {number} teaches: {text!r}")
        print(f"  {template}, {kind}: {len(asked)} conversations, {answers} answers")


def main():
    options = started("probe", "sentencepiece", "transformers")
    failures = []
    for case in CASES:
        compare(options.probe, *case, failures)
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
