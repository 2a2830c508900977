"""Hidden tokens beside transformers: folders of its `...ForMaskedLM` are read, trained and written, and what the model tells at masks is
the same.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import random
import tempfile

import encoder_folders
from comparison import run, started, table

WORDS = "the cat sat on a mat so it was flat and no more text for all of them".split()


def text(mask):
    words = [random.choice(WORDS) for _ in range(random.randint(4, 12))]
    for _ in range(2):
        words[random.randrange(len(words))] = mask
    return " ".join(words)


def expected(folder, texts, torch):
    """Of each text, the probabilities of the likeliest tokens at its masks."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model, info = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(info.values()), info
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for one in texts:
        ids = tokenizer(one, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            best = torch.softmax(model.eval()(input_ids=ids).logits[0], -1).max(-1).values
        found.append(best[ids[0] == tokenizer.mask_token_id])
    return torch.cat(found)


def compare(program, work, kind):
    import torch
    from transformers import AutoModelForMaskedLM

    torch.manual_seed(0)
    random.seed(1)
    folder = os.path.join(work, "folder")
    tokenizer = encoder_folders.make_tokenizer(kind)
    encoder_folders.make_model(AutoModelForMaskedLM, kind, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts = [text(tokenizer.mask_token) for _ in range(16)]
    for name, lines in (("asked", texts), ("train", [text("and") for _ in range(32)])):
        with open(os.path.join(work, name + ".jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": line}) + "\n" for line in lines)
    with open(os.path.join(work, "texts.toml"), "w", encoding="utf-8") as file:
        file.write("""[run]
dir = "run"
device = "cpu"
[task]
plugin = "masked"
data = { train = "train.jsonl", test = "asked.jsonl" }
[train]
init_from = "folder"
global_batch = 8
micro_batch = 8
max_steps = 4
[optimizer]
lr = 1e-2
""")

    def difference(what, model_folder):
        ours = torch.tensor([float(share) for row in table(os.path.join(work, "run", "submission.csv")) for share in row["probabilities"].split()])
        theirs = expected(model_folder, texts, torch)
        assert ours.shape == theirs.shape, (ours, theirs)
        worst = (ours - theirs).abs().max().item()
        assert worst < 2e-5, f"{kind}, {what}: {worst}"
        return ours, worst

    run(program, work, "predict", "texts.toml", "--checkpoint", "folder")
    before, read = difference("read", folder)
    run(program, work, "run", "texts.toml", "--fresh")
    run(program, work, "predict", "texts.toml")
    run(program, work, "export", "texts.toml")
    after, written = difference("written", os.path.join(work, "run", "export"))
    assert not torch.allclose(before, after, atol=1e-3), "nothing was learnt"
    print(f"{kind}: probabilities differ by {read:.1e} (read) and {written:.1e} (written)", flush=True)


def main():
    arguments = started("program", "torch", "transformers", "tokenizers", "sentencepiece")
    for kind in encoder_folders.KINDS:
        with tempfile.TemporaryDirectory() as work:
            compare(arguments.program, work, kind)


if __name__ == "__main__":
    main()
