"""Vectors of texts beside sentence-transformers: its folders are read, trained for four steps and written. Vectors, losses and norms of
gradients are the same, and it gives the same vectors for what we write.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import json
import os
import random
import shutil
import tempfile

from comparison import plain_training, run, started, steps_of, worst_of, write_rows

WORDS = "the cat sat on a mat so it was flat and no more text for all of them".split()
BATCH, STEPS, RATE = 4, 4, 1e-4
# An encoder, how its last layer is pooled, what follows, what is learnt, and from which form of folder.
CASES = [("bert", "mean", ["Normalize"], {"matryoshka": [32, 12]}, "new"), ("bert", "cls", ["Dense", "Normalize"], {"symmetric": True}, "old"),
         ("distilbert", "lasttoken", ["Dense"], {"objective": "similarity"}, "new"), ("roberta", "mean", [], {"negatives": 2}, "new"),
         ("xlm-roberta", "mean", [], {"negatives": 1, "symmetric": True, "matryoshka": [32, 16]}, "encoder"),
         ("modernbert", "mean", ["Normalize"], {}, "new"),
         ("qwen3", "lasttoken", ["Normalize"], {"negatives": 1}, "new"), ("llama", "lasttoken", [], {}, "encoder")]
OLD_TYPES = {"Transformer": "sentence_transformers.models.Transformer", "Pooling": "sentence_transformers.models.Pooling",
             "Dense": "sentence_transformers.models.Dense", "Normalize": "sentence_transformers.models.Normalize"}


def text():
    return " ".join(random.choice(WORDS) for _ in range(random.randint(3, 12)))


def records(learnt):
    """No two texts are equal: we know those for one, and sentence-transformers does not."""
    rows, seen = [], set()
    while len(rows) < BATCH * STEPS:
        texts = [text() for _ in range(4)]
        if len(seen | set(texts)) < len(seen) + 4:
            continue
        seen |= set(texts)
        row = {"anchor": texts[0], "positive": texts[1], "negative": texts[2:2 + learnt.get("negatives", 0)]}
        rows.append({**row, "score": random.uniform(0, 5)} if "objective" in learnt else row)
    return rows


def make_folder(kind, pooling, parts, form, folder, st):
    import transformers

    import encoder_folders

    tokenizer = encoder_folders.make_tokenizer(kind)
    inner = os.path.join(os.path.dirname(folder), "encoder")
    auto = transformers.AutoModelForCausalLM if kind == "llama" else transformers.AutoModel
    encoder_folders.make_model(auto, kind, tokenizer).save_pretrained(inner)
    tokenizer.save_pretrained(inner)
    if form == "encoder":
        os.rename(inner, folder)
        return
    modules = st.sentence_transformer.modules
    all_modules = [modules.Transformer(inner, max_seq_length=48), modules.Pooling(32, pooling)]
    all_modules += [modules.Dense(32, 32, bias=form == "old")] * ("Dense" in parts) + [modules.Normalize()] * ("Normalize" in parts)
    st.SentenceTransformer(modules=all_modules, device="cpu", prompts={"query": "so: "} if form == "new" else None).save(folder)
    if form == "old":  # as versions before 5.4 wrote it
        path = os.path.join(folder, "modules.json")
        with open(path) as file:
            listed = json.load(file)
        for module in listed:
            module["type"] = OLD_TYPES[module["type"].rsplit(".", 1)[1]]
        with open(path, "w") as file:
            json.dump(listed, file)
        with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as file:
            json.dump({"word_embedding_dimension": 32, **{f"pooling_mode_{name}": name == "cls_token" for name in (
                "cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")}}, file)
        with open(os.path.join(folder, "sentence_bert_config.json"), "w") as file:
            json.dump({"max_seq_length": 48, "do_lower_case": False}, file)


def loss_of(model, learnt, st):
    losses = st.sentence_transformer.losses
    if "objective" in learnt:
        return losses.CoSENTLoss(model, scale=20)
    symmetric = learnt.get("symmetric", False)
    loss = losses.MultipleNegativesRankingLoss(model, scale=20, **(
        {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"} if symmetric else {}))
    return losses.MatryoshkaLoss(model, loss, learnt["matryoshka"]) if "matryoshka" in learnt else loss


def theirs(folder, learnt, rows, torch, st, prompt):
    """[(loss, gradient norm)] of the steps."""
    model = st.SentenceTransformer(folder, device="cpu").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):  # a token for padding stands in no text: its row is as others here
            module.padding_idx = None
    loss = loss_of(model, learnt, st)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    seen = []
    for step in range(STEPS):
        mine = rows[step * BATCH:(step + 1) * BATCH]
        columns = [[prompt + row["anchor"] for row in mine], [row["positive"] for row in mine]]
        columns += [[row["negative"][i] for row in mine] for i in range(learnt.get("negatives", 0))]
        optimizer.zero_grad()
        labels = torch.tensor([row["score"] for row in mine]) if "score" in mine[0] else None
        value = loss([model.preprocess(column) for column in columns], labels)
        value.backward()
        seen.append((value.item(), torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9).item()))
        optimizer.step()
    return seen


def compare(program, work, case):
    import sentence_transformers as st
    import torch
    from safetensors.torch import load_file

    kind, pooling, parts, learnt, form = case
    torch.manual_seed(0)
    random.seed(1)
    folder = os.path.join(work, "folder")
    make_folder(kind, pooling, parts, form, folder, st)
    rows = records(learnt)
    write_rows(os.path.join(work, "texts.jsonl"), rows)
    columns = 'query_column = "anchor", positive_column = "positive"' + (
        f', negative_column = "negative", negatives = {learnt["negatives"]}' if "negatives" in learnt else "")
    loss = ", ".join(f"{key} = {json.dumps(learnt[key])}" for key in ("symmetric", "matryoshka") if key in learnt)
    objective = learnt.get("objective", "ranking")
    with open(os.path.join(work, "texts.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[run]
dir = "run"
device = "cpu"
[task]
plugin = "embedding"
objective = "{objective}"
data = {{ train = "texts.jsonl", test = "texts.jsonl", {columns} }}
loss = {{ {loss} }}
{f'model = {{ pooling = "{pooling}", normalize = false }}' if form == "encoder" else ""}
{plain_training("folder", BATCH, STEPS, RATE)}""")
    prompt = "so: " if form == "new" else ""

    def check_vectors(what, model_folder, run_folder):
        ours = load_file(os.path.join(work, run_folder, "submission-files", "embeddings.safetensors"))["embeddings"]
        model = st.SentenceTransformer(model_folder, device="cpu")
        expected = torch.tensor(model.encode([prompt + row["anchor"] for row in rows]))
        worst = (ours - expected).abs().max().item()
        assert ours.shape == expected.shape and worst < 2e-5, f"{kind}, {what}: {worst}\n{ours}\n{expected}"
        return worst

    run(program, work, "predict", "texts.toml", "--checkpoint", "folder")
    read = check_vectors("read", folder, "run")
    expected = theirs(folder, learnt, rows, torch, st, prompt)
    shutil.rmtree(os.path.join(work, "run"))
    run(program, work, "run", "texts.toml")
    ours = steps_of(os.path.join(work, "run"), "loss", "grad_norm")
    worst = worst_of(ours, expected, f"{case}")
    run(program, work, "predict", "texts.toml")
    run(program, work, "export", "texts.toml")
    written = check_vectors("written", os.path.join(work, "run", "export"), "run")
    print(f"{kind}, {pooling}, {parts}, {learnt}, {form}: vectors differ by {read:.1e} (read) and {written:.1e} (written), "
          f"losses and norms of {STEPS} steps by {worst[0]:.1e} and {worst[1]:.1e}", flush=True)


def compare_new(program, work):
    """A model with a tokenizer of our own training, neither of which any folder had: they make the same of a text."""
    import sentence_transformers as st
    import torch
    from safetensors.torch import load_file

    random.seed(2)
    rows = records({})
    write_rows(os.path.join(work, "texts.jsonl"), rows)
    with open(os.path.join(work, "new.toml"), "w", encoding="utf-8") as file:
        file.write("""[run]
dir = "run"
device = "cpu"
[task]
plugin = "embedding"
data = { train = "texts.jsonl", test = "texts.jsonl" }
tokenizer.vocab_size = 270
model = { hidden_size = 32, num_hidden_layers = 2, num_attention_heads = 4, intermediate_size = 64, max_position_embeddings = 64 }
text.max_tokens = 32
[train]
global_batch = 8
micro_batch = 8
max_steps = 3
""")
    for verb in ("run", "predict", "export"):
        run(program, work, verb, "new.toml")
    ours = load_file(os.path.join(work, "run", "submission-files", "embeddings.safetensors"))["embeddings"]
    theirs = torch.tensor(st.SentenceTransformer(os.path.join(work, "run", "export"), device="cpu").encode([row["anchor"] for row in rows]))
    worst = (ours - theirs).abs().max().item()
    assert worst < 2e-5, f"a new model: {worst}"
    print(f"a new model and tokenizer: vectors differ by {worst:.1e}", flush=True)


def compare_adapter(program, work, kind, pooling, table):
    """LoRA of a decoder or an encoder and the projection behind it, which sentence-transformers loads on its base, and so do we."""
    import sentence_transformers as st
    import torch
    from safetensors.torch import load_file

    torch.manual_seed(3)
    random.seed(3)
    make_folder(kind, pooling, ["Dense", "Normalize"], "new", os.path.join(work, "folder"), st)
    rows = records({})
    write_rows(os.path.join(work, "texts.jsonl"), rows)
    with open(os.path.join(work, "lora.toml"), "w", encoding="utf-8") as file:
        file.write(f"""[run]
dir = "run"
device = "cpu"
[task]
plugin = "embedding"
data = {{ train = "texts.jsonl", test = "texts.jsonl" }}
{table}.lora = {{ rank = 4, targets = ["all-linear"] }}
{plain_training("folder", BATCH, STEPS, 0.01)}""")
    for verb in ("run", "predict", "export"):
        run(program, work, verb, "lora.toml")
    ours = load_file(os.path.join(work, "run", "submission-files", "embeddings.safetensors"))["embeddings"]
    run(program, work, "predict", "lora.toml", "--checkpoint", "folder", "--set", "run.dir=again", "--set", f"task.{table}.lora.init_from=run/export")
    again = load_file(os.path.join(work, "again", "submission-files", "embeddings.safetensors"))["embeddings"]
    texts = ["so: " + row["anchor"] for row in rows]
    here = os.getcwd()
    os.chdir(work)  # where the base's folder is what adapter_config.json names
    try:
        export, base = os.path.join("run", "export"), st.SentenceTransformer("folder", device="cpu")
        assert os.path.exists(os.path.join(export, "adapter_model.safetensors"))
        theirs = torch.tensor(st.SentenceTransformer(export, device="cpu").encode(texts))
    finally:
        os.chdir(here)
    worst = max((ours - theirs).abs().max().item(), (ours - again).abs().max().item())
    changed = (theirs - torch.tensor(base.encode(texts))).abs().max().item()
    assert worst < 2e-5 and changed > 0.01, f"LoRA of {kind}: {worst}, and what it changes: {changed}"
    print(f"LoRA of {kind}: vectors differ by {worst:.1e}, and from those of its base by {changed:.1e}", flush=True)


def main():
    arguments = started("program", "sentence_transformers", "torch", "transformers", "tokenizers", "safetensors")
    for case in CASES:
        with tempfile.TemporaryDirectory() as work:
            compare(arguments.program, work, case)
    with tempfile.TemporaryDirectory() as work:
        compare_new(arguments.program, work)
    for kind, pooling, table in (("qwen3", "lasttoken", "language"), ("bert", "mean", "model")):
        with tempfile.TemporaryDirectory() as work:
            compare_adapter(arguments.program, work, kind, pooling, table)


if __name__ == "__main__":
    main()
