"""Labels of texts beside transformers: folders of its models that classify texts are read, trained for four steps and written.
Probabilities, losses and norms of gradients are the same, and its classes give the same for what we write.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import os
import random
import statistics
import tempfile

import encoder_folders
from comparison import plain_training, run, started, steps_of, table, worst_of, write_rows

WORDS = "the cat sat on a mat so it was flat and no more text for all of them".split()
BATCH, STEPS, RATE = 4, 4, 1e-3
CLASSES = ["first", "second", "third"]
# Of transformers: the model's type, what is learnt, and whether a text has a second one.
CASES = [("qwen2", "classification", False), ("llama", "classification", True), ("gpt2", "multi_label", False),
         ("gemma3_text", "regression", False), ("mistral", "multi_label", True), ("qwen3", "reward", False), ("llama", "reward", False),
         ("gpt2", "tags", False), ("llama", "tags", False), ("bert", "classification", True), ("roberta", "multi_label", True),
         ("distilbert", "regression", False), ("bert", "tags", False), ("xlm-roberta", "tags", False), ("xlm-roberta", "classification", True),
         ("modernbert", "classification", True), ("modernbert", "tags", False)]
PROBLEM = {"tags": None, "reward": "regression", "classification": "single_label_classification", "multi_label": "multi_label_classification", "regression": "regression"}


def text():
    return " ".join(random.choice(WORDS) for _ in range(random.randint(2, 9)))


def records(objective, has_pairs):
    count = BATCH * STEPS
    if objective == "reward":
        return [{"prompt": text(), "chosen": text(), "rejected": text()} for _ in range(count)]
    rows = [{"text": text(), **({"other": text()} if has_pairs else {})} for _ in range(count)]
    if objective == "regression":
        # Their deviation is 1: numbers are learnt as number / deviation, and the head's gradient is that of what it gives.
        numbers = [random.uniform(-2, 8) for _ in rows]
        labels = [number / statistics.stdev(numbers) for number in numbers]
    elif objective == "tags":
        labels = [[random.choice(CLASSES) for _ in row["text"].split()] for row in rows]
    elif objective == "multi_label":
        labels = [[name for name in CLASSES if random.random() < 0.5] for _ in rows]
    else:
        labels = [random.choice(CLASSES) for _ in rows]
    return [{**row, "label": label} for row, label in zip(rows, labels, strict=True)]


def word_outputs(model, tokenizer, row, torch):
    """(words, classes): a word is told at its last token, by an encoder at its first; it becomes tokens as within a text."""
    if model.config.model_type in encoder_folders.KINDS:
        ids, firsts = [tokenizer.cls_token_id], []
        for word in row["text"].split():
            firsts.append(len(ids))
            ids += tokenizer((" " if len(firsts) > 1 else "") + word, add_special_tokens=False)["input_ids"]
        return model(input_ids=torch.tensor([ids + [tokenizer.sep_token_id]])).logits[0, firsts]
    ids, ends = ([tokenizer.bos_token_id] if tokenizer.bos_token_id is not None else []), []
    for word in row["text"].split():
        ids += tokenizer((" " if ends else "") + word, add_special_tokens=False)["input_ids"]
        ends.append(len(ids) - 1)
    return model(input_ids=torch.tensor([ids])).logits[0, ends]


def word_loss(model, tokenizer, row, torch, words):
    targets = torch.tensor([CLASSES.index(label) for label in row["label"]])
    return torch.nn.functional.cross_entropy(word_outputs(model, tokenizer, row, torch), targets, reduction="sum") / words


def right(objective, row, torch):
    if objective == "classification":
        return torch.tensor([CLASSES.index(row["label"])])
    if objective == "regression":
        return torch.tensor([row["label"]])
    return torch.tensor([[float(name in row["label"]) for name in CLASSES]])


def output(model, tokenizer, row, labels=None):
    """One text at a time: nothing is padded."""
    words = tokenizer(row["text"], row.get("other"), return_tensors="pt")
    types = {} if model.config.model_type != "bert" else {"token_type_ids": words["token_type_ids"]}
    return model(input_ids=words["input_ids"], labels=labels, **types)


def scores(model, tokenizer, row):
    """Of the chosen and the rejected answer, as a reward model has them."""
    both = [[{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row[which]}] for which in ("chosen", "rejected")]
    return [model(**tokenizer.apply_chat_template(one, return_tensors="pt", return_dict=True)).logits[0, 0] for one in both]


def probabilities(objective, logits, torch):
    return logits[:, 0] if objective == "regression" else torch.softmax(logits, 1) if objective == "classification" else torch.sigmoid(logits)


def predicted(work, objective, run_folder, torch):
    rows = table(os.path.join(work, run_folder, "submission-files/labels.csv" if objective == "tags" else "submission.csv"))
    names = ["reward_chosen", "reward_rejected"] if objective == "reward" else ["prediction"] if objective == "regression" else [f"p_{name}" for name in CLASSES]
    return torch.tensor([[float(row[name]) for name in names] for row in rows]).squeeze(1)


def pair_loss(model, tokenizer, row, torch):
    chosen, rejected = scores(model, tokenizer, row)
    return 0.01 * (chosen + rejected) ** 2 - torch.nn.functional.logsigmoid(chosen - rejected)


def theirs(folder, objective, rows, torch, classes):
    """[(loss, gradient norm)] of the steps."""
    model = classes.from_pretrained(folder, dtype=torch.float32)
    model.get_input_embeddings().padding_idx = None  # else the row of the token for padding learns nothing, wherever it stands
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    seen = []
    for step in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        mine = rows[step * BATCH : (step + 1) * BATCH]
        for row in mine:
            if objective == "tags":
                loss = word_loss(model, tokenizer, row, torch, sum(len(one["label"]) for one in mine))
                loss.backward()
                total += loss.item()
                continue
            whole = pair_loss(model, tokenizer, row, torch) if objective == "reward" else output(
                model, tokenizer, row, right(objective, row, torch)).loss
            loss = whole / BATCH
            loss.backward()
            total += loss.item()
        seen.append((total, torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()))
        optimizer.step()
    return seen


def make_language_model(kind, classes, folder, names):
    from transformers import AutoConfig

    import chat_tokenizers

    tokenizer = chat_tokenizers.save("llama3" if kind == "llama" else "qwen2", [], "<|im_end|>", chat_tokenizers.CHATML, folder)
    # A conversation ends with the end of text: where that is for padding, too, transformers scores the token before.
    padding = None if kind == "llama" else tokenizer.eos_token_id
    sizes = dict(n_embd=64, n_layer=2, n_head=4, n_positions=128, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, classifier_dropout=0.0) if kind == "gpt2" else dict(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        max_position_embeddings=128)
    config = AutoConfig.for_model(kind, vocab_size=len(tokenizer), initializer_range=0.1, bos_token_id=tokenizer.bos_token_id,
                                  eos_token_id=tokenizer.eos_token_id, pad_token_id=padding, **names, **sizes)
    classes.from_config(config).save_pretrained(folder)


def compare(program, work, kind, objective, has_pairs):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

    classes = AutoModelForTokenClassification if objective == "tags" else AutoModelForSequenceClassification
    torch.manual_seed(0)
    random.seed(1)
    folder = os.path.join(work, "folder")
    os.makedirs(folder)
    names = dict(problem_type=PROBLEM[objective], id2label=dict(enumerate(CLASSES if objective in ("classification", "multi_label", "tags") else ["score"])))
    if kind in encoder_folders.KINDS:
        tokenizer = encoder_folders.make_tokenizer(kind)
        encoder_folders.make_model(classes, kind, tokenizer, **names).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    else:
        make_language_model(kind, classes, folder, names)
    rows = records(objective, has_pairs)
    write_rows(os.path.join(work, "texts.jsonl"), rows)
    data = 'data = { train = "texts.jsonl", test = "texts.jsonl"' + (', pair_column = "other" }' if has_pairs else " }")
    task = f'plugin = "labels"\nobjective = "{objective}"\n{data}\nsequence.max_tokens = 64'
    if objective == "reward":
        task = f'plugin = "preference"\n{data}\npreference = {{ loss = "reward", center_rewards_coefficient = 0.01 }}\ngenerate.max_tokens = 8'
    with open(os.path.join(work, "texts.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[run]
dir = "run"
device = "cpu"
[task]
{task}
{plain_training("folder", BATCH, STEPS, RATE)}""")

    def check_predictions(what, model_folder, run_folder):
        model = classes.from_pretrained(model_folder, dtype=torch.float32).eval()
        own = AutoTokenizer.from_pretrained(model_folder)
        with torch.no_grad():
            if objective == "tags":
                expected = torch.softmax(torch.cat([word_outputs(model, own, row, torch) for row in rows]), -1)
            elif objective == "reward":
                expected = torch.tensor([scores(model, own, row) for row in rows])
            else:
                expected = torch.cat([probabilities(objective, output(model, own, row).logits, torch) for row in rows])
        ours = predicted(work, objective, run_folder, torch)
        assert ours.shape == expected.shape, (ours.shape, expected.shape)
        worst = (ours - expected).abs().max().item()
        assert worst < 2e-5, f"{kind} {objective}: {what}: {worst}\n{ours}\n{expected}"
        return worst

    run(program, work, "predict", "texts.toml", "--checkpoint", "folder", "--set", "run.dir=first")
    read = check_predictions("what is read", folder, "first")
    run(program, work, "run", "texts.toml")
    ours = steps_of(os.path.join(work, "run"), "loss", "grad_norm")
    trained = max(worst_of(ours, theirs(folder, objective, rows, torch, classes), f"{kind} {objective}"))
    run(program, work, "predict", "texts.toml")
    run(program, work, "export", "texts.toml", "--output", "exported")
    written = check_predictions("what is written", os.path.join(work, "exported"), "run")
    print(f"  {kind} {objective}{' of pairs' if has_pairs else ''}: read {read:.1e}, trained {trained:.1e}, written {written:.1e}")


def compare_adapter(program, work, kind):
    """LoRA of an encoder, and its head: peft reads what is written, and so do we."""
    import peft
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(2)
    random.seed(2)
    folder, exported = os.path.join(work, "folder"), os.path.join(work, "exported")
    tokenizer = encoder_folders.make_tokenizer(kind)
    encoder_folders.make_model(AutoModelForSequenceClassification, kind, tokenizer, id2label=dict(enumerate(CLASSES))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    rows = records("classification", False)
    write_rows(os.path.join(work, "texts.jsonl"), rows)
    with open(os.path.join(work, "texts.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[run]
dir = "run"
device = "cpu"
[task]
plugin = "labels"
data = {{ train = "texts.jsonl", test = "texts.jsonl" }}
encoder.lora = {{ rank = 4, targets = ["all-linear"] }}
{plain_training("folder", BATCH, STEPS, 0.01)}""")
    run(program, work, "run", "texts.toml")
    run(program, work, "predict", "texts.toml")
    run(program, work, "export", "texts.toml", "--output", "exported")
    run(program, work, "predict", "texts.toml", "--checkpoint", "folder", "--set", "run.dir=again", "--set", "task.encoder.lora.init_from=exported")
    base = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    own = AutoTokenizer.from_pretrained(exported)
    with torch.no_grad():
        before = torch.cat([probabilities("classification", output(base, own, row).logits, torch) for row in rows])
        model = peft.PeftModel.from_pretrained(base, exported).eval()
        expected = torch.cat([probabilities("classification", output(model, own, row).logits, torch) for row in rows])
    worst = [(predicted(work, "classification", folder, torch) - expected).abs().max().item() for folder in ("run", "again")]
    assert max(worst) < 2e-5 and (expected - before).abs().max().item() > 0.01, f"LoRA of {kind}: {worst}"
    print(f"  LoRA of {kind}: written {worst[0]:.1e}, read {worst[1]:.1e}")


def compare_new(program, work):
    """An encoder and a tokenizer that begin here: the folder's own tokenizer makes of two texts what they were learnt as."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    random.seed(1)
    rows = records("classification", True)
    write_rows(os.path.join(work, "texts.jsonl"), rows)
    with open(os.path.join(work, "texts.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[run]
dir = "run"
device = "cpu"
[task]
plugin = "labels"
family = "encoder"
data = {{ train = "texts.jsonl", test = "texts.jsonl", pair_column = "other" }}
tokenizer.vocab_size = 270
encoder = {{ hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 4, intermediate_size = 64, max_position_embeddings = 128 }}
sequence.max_tokens = 128
{plain_training("", BATCH, STEPS, 0.02)}""")
    run(program, work, "run", "texts.toml")
    run(program, work, "predict", "texts.toml")
    run(program, work, "export", "texts.toml", "--output", "exported")
    folder = os.path.join(work, "exported")
    model, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        pairs = tokenizer([row["text"] for row in rows], [row["other"] for row in rows], padding=True, return_tensors="pt")
        worst = (predicted(work, "classification", "run", torch) - torch.softmax(model(**pairs).logits, 1)).abs().max().item()
    assert worst < 2e-5, f"a new encoder: {worst}"
    print(f"  a new encoder and tokenizer, of pairs: written {worst:.1e}")


def main():
    options = started("program", "transformers")
    for case in CASES:
        with tempfile.TemporaryDirectory() as work:
            compare(options.program, work, *case)
    for kind in ("bert", "modernbert"):
        with tempfile.TemporaryDirectory() as work:
            compare_adapter(options.program, work, kind)
    with tempfile.TemporaryDirectory() as work:
        compare_new(options.program, work)


if __name__ == "__main__":
    main()
