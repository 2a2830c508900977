"""Labels of texts beside transformers: folders of its models that classify texts are read, trained for four steps and written.
Probabilities, losses and norms of gradients are the same, and its classes give the same for what we write.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import random
import tempfile

from comparison import run, started, table

WORDS = "the cat sat on a mat so it was flat and no more text for all of them".split()
BATCH, STEPS, RATE = 4, 4, 1e-3
CLASSES = ["first", "second", "third"]
# Of transformers: the model's type, what is learnt, and whether a text has a second one.
CASES = [("qwen2", "classification", False), ("llama", "classification", True), ("gpt2", "multi_label", False),
         ("gemma3_text", "regression", False), ("mistral", "multi_label", True)]
PROBLEM = {"classification": "single_label_classification", "multi_label": "multi_label_classification", "regression": "regression"}


def text():
    return " ".join(random.choice(WORDS) for _ in range(random.randint(2, 9)))


def records(objective, has_pairs):
    def label():
        if objective == "classification":
            return random.choice(CLASSES)
        if objective == "regression":
            return round(random.uniform(-2, 8), 3)
        return [name for name in CLASSES if random.random() < 0.5]

    return [{"text": text(), **({"other": text()} if has_pairs else {}), "label": label()} for _ in range(BATCH * STEPS)]


def right(objective, row, torch):
    if objective == "classification":
        return torch.tensor([CLASSES.index(row["label"])])
    if objective == "regression":
        return torch.tensor([row["label"]])
    return torch.tensor([[float(name in row["label"]) for name in CLASSES]])


def output(model, tokenizer, row, labels=None):
    """One text at a time: nothing is padded."""
    words = tokenizer(row["text"], row.get("other"), return_tensors="pt")
    return model(input_ids=words["input_ids"], labels=labels)


def probabilities(objective, logits, torch):
    return logits[:, 0] if objective == "regression" else torch.softmax(logits, 1) if objective == "classification" else torch.sigmoid(logits)


def predicted(work, objective, run_folder, torch):
    rows = table(os.path.join(work, run_folder, "submission.csv"))
    names = ["prediction"] if objective == "regression" else [f"p_{name}" for name in CLASSES]
    return torch.tensor([[float(row[name]) for name in names] for row in rows]).squeeze(1)


def theirs(folder, objective, rows, scale, torch, classes):
    """[(loss, gradient norm)] of the steps."""
    model = classes.from_pretrained(folder, dtype=torch.float32)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    seen = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for row in rows[step * BATCH : (step + 1) * BATCH]:
            loss = output(model, tokenizer, row, right(objective, row, torch)).loss / BATCH / scale**2
            loss.backward()
            total += loss.item()
        seen.append((total, torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()))
        optimizer.step()
    return seen


def compare(program, work, kind, objective, has_pairs):
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    import chat_tokenizers

    torch.manual_seed(0)
    random.seed(1)
    folder = os.path.join(work, "folder")
    os.makedirs(folder)
    tokenizer = chat_tokenizers.save("llama3" if kind == "llama" else "qwen2", [], "<|im_end|>", "{{ messages }}", folder)
    sizes = dict(n_embd=64, n_layer=2, n_head=4, n_positions=128, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0) if kind == "gpt2" else dict(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        max_position_embeddings=128)
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), initializer_range=0.1, bos_token_id=tokenizer.bos_token_id,
                                  eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id, problem_type=PROBLEM[objective],
                                  id2label=dict(enumerate(["score"] if objective == "regression" else CLASSES)), **sizes)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    rows = records(objective, has_pairs)
    with open(os.path.join(work, "texts.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    numbers = torch.tensor([row["label"] for row in rows]) if objective == "regression" else None
    with open(os.path.join(work, "texts.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[run]
dir = "run"
device = "cpu"
[task]
plugin = "labels"
data = {{ train = "texts.jsonl", test = "texts.jsonl"{', pair_column = "other"' if has_pairs else ''} }}
sequence.max_tokens = 64
[train]
init_from = "folder"
precision = "fp32"
global_batch = {BATCH}
micro_batch = 2
max_steps = {STEPS}
clip_grad_norm = 1e9
[optimizer]
lr = {RATE}
beta2 = 0.999
weight_decay = 0.0
[schedule]
kind = "constant"
[loader]
shuffle = false
""")

    def check_predictions(what, model_folder, run_folder):
        model = AutoModelForSequenceClassification.from_pretrained(model_folder, dtype=torch.float32).eval()
        own = AutoTokenizer.from_pretrained(model_folder)
        with torch.no_grad():
            expected = torch.cat([probabilities(objective, output(model, own, row).logits, torch) for row in rows])
        ours = predicted(work, objective, run_folder, torch)
        assert ours.shape == expected.shape, (ours.shape, expected.shape)
        worst = (ours - expected).abs().max().item()
        assert worst < 2e-5, f"{kind} {objective}: {what}: {worst}\n{ours}\n{expected}"
        return worst

    run(program, work, "predict", "texts.toml", "--checkpoint", "folder", "--set", "run.dir=first")
    read = check_predictions("what is read", folder, "first")
    run(program, work, "run", "texts.toml")
    with open(os.path.join(work, "run", "metrics.jsonl"), encoding="utf-8") as file:
        ours = [(step["loss"], step["grad_norm"]) for step in map(json.loads, file)]
    # Numbers are learnt as number / deviation by a head that gives them so: its gradient is not that of the folder's.
    expected = theirs(folder, objective, rows, numbers.std().item() if objective == "regression" else 1.0, torch,
                      AutoModelForSequenceClassification)
    assert len(ours) == len(expected) == STEPS, ours
    compared = 1 if objective == "regression" else STEPS
    pairs = [(a[i], b[i]) for a, b in zip(ours[:compared], expected, strict=False) for i in range(1 if objective == "regression" else 2)]
    trained = max(abs(a - b) / abs(b) for a, b in pairs)
    assert trained < 1e-5, f"{kind} {objective}: {trained}\nours     {ours}\nexpected {expected}"
    run(program, work, "predict", "texts.toml")
    run(program, work, "export", "texts.toml", "--output", "exported")
    written = check_predictions("what is written", os.path.join(work, "exported"), "run")
    print(f"  {kind} {objective}{' of pairs' if has_pairs else ''}: read {read:.1e}, trained {trained:.1e}, written {written:.1e}")


def main():
    options = started("program", "transformers")
    for case in CASES:
        with tempfile.TemporaryDirectory() as work:
            compare(options.program, work, *case)


if __name__ == "__main__":
    main()
