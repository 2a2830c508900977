"""Records what Hugging Face's `tokenizers` does, as the fixtures of tests/models/tokenizer: run with tokenizer-requirements.txt installed.

tokenizer.json and merges.txt: a tokenizer trained on tokenizer_samples.TRAINING. cases.json: texts with their pieces and ids, and ids with
their texts. kinds/: small tokenizers of SmolLM's and Llama 3's form, and the ids that they give the texts of cases.json.
"""
import json
import os
import random

import tokenizers
import tokenizers.trainers

import tokenizer_kinds
import tokenizer_samples as samples

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tokenizer", "fixtures")
VOCAB_SIZE = 512


def trained():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCAB_SIZE - 1, min_frequency=2, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(samples.TRAINING, trainer)
    return tokenizer


def text_cases(tokenizer, texts):
    byte_of = {c: b for b, c in zip(all_bytes(), alphabet())}
    for text in texts:
        pieces = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
        yield {"text": text, "pieces": [bytes(byte_of[c] for c in piece).decode() for piece in pieces],
               "ids": tokenizer.encode(text).ids}


def all_bytes():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [b for b in range(256) if b not in printable]


def alphabet():
    own = [chr(b) for b in all_bytes()[:188]]
    return own + [chr(256 + i) for i in range(68)]


def record_kinds(texts):
    for kind, make in tokenizer_kinds.KINDS.items():
        folder = os.path.join(FOLDER, "kinds", kind)
        os.makedirs(folder, exist_ok=True)
        tokenizer = make(400)
        tokenizer.save(os.path.join(folder, "tokenizer.json"), pretty=False)
        with open(os.path.join(folder, "ids.json"), "w", encoding="ascii") as file:
            lines = ",\n".join(json.dumps(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
            file.write(f"[\n{lines}\n]\n")


def main():
    tokenizer = trained()
    rng = random.Random(1)
    texts = samples.AWKWARD + samples.TRAINING + samples.random_texts(150, seed=9)
    cases = list(text_cases(tokenizer, texts))
    lists = [[rng.randrange(VOCAB_SIZE - 1) for _ in range(rng.randrange(1, 12))] for _ in range(150)]
    decoded = [{"ids": ids, "text": tokenizer.decode(ids)} for ids in lists]

    os.makedirs(FOLDER, exist_ok=True)
    record_kinds(texts)
    tokenizer.model.save(FOLDER)
    os.remove(os.path.join(FOLDER, "vocab.json"))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(os.path.join(FOLDER, "tokenizer.json"), pretty=False)
    with open(os.path.join(FOLDER, "cases.json"), "w", encoding="ascii") as file:
        head = json.dumps({"made_by": f"tests/parity/record_tokenizer.py with tokenizers {tokenizers.__version__}"})[1:-1]
        lines = [",\n".join(json.dumps(case) for case in part) for part in (cases, decoded)]
        file.write(f'{{{head},\n"encode": [\n{lines[0]}\n],\n"decode": [\n{lines[1]}\n]}}\n')


if __name__ == "__main__":
    main()
