"""Compares labels with transformers: what `pipeline predict` says for a folder of EsmForSequenceClassification or EsmForTokenClassification, or
of those of ESM C, and one step of gradient descent from it, loss and all weights, as `pipeline export` writes them and transformers loads them.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import csv
import itertools
import json
import tempfile
from pathlib import Path

from comparison import run_on_cpu as run
from comparison import started, table

CELL_TOLERANCE = 0.5e-6 + 2e-6  # of probabilities in tables, which have six decimals
NUMBER_TOLERANCE = 1e-5  # relative, of small ones absolute: they are sums of terms of some 1
LOSS_TOLERANCE = 1e-5
GRADIENT_TOLERANCE = 2e-4  # of the largest: it is a difference of weights, which rounds
LETTERS = "ACDEFGHIKLMNPQRSTVWY"
CLASSES = ["cytosol", "membrane", "nucleus"]
STATES = "HEC"
RATE = 0.5


def make_proteins(count):
    import torch

    proteins = []
    for i in range(count):
        letters = torch.randint(0, len(LETTERS), (20 + 7 * i,)).tolist()
        states = torch.randint(0, len(STATES), (len(letters),)).tolist()
        proteins.append({"id": f"p{i}", "sequence": "".join(LETTERS[a] for a in letters), "place": CLASSES[i % len(CLASSES)],
                         "states": "".join("?" if n % 5 == 0 else STATES[s] for n, s in enumerate(states)), "kelvin": f"{300 + 17.5 * (i * i % 5)}",
                         "split": "train" if i < count - 2 else ("val" if i == count - 1 else "test")})
    return proteins


def write_table(file, proteins):
    with open(file, "w", encoding="utf-8", newline="") as out:
        rows = csv.DictWriter(out, list(proteins[0]))
        rows.writeheader()
        rows.writerows(proteins)


def make_folder(folder, family, kind, **labels):
    """Of family "esm" or "esmc". Biases and norms are not 0 and 1, and weights are larger than before training."""
    import esm2_reference
    import torch
    import transformers

    torch.manual_seed(3)
    base = esm2_reference.save_model(folder, family, hidden_size=40, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80)
    for key, value in labels.items():
        setattr(base.config, key, value)
    model = getattr(transformers, {"esm": "Esm", "esmc": "Esmc"}[family] + kind)(base.config).eval()
    getattr(model, family).load_state_dict(getattr(base, family).state_dict(), strict=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if is_of_head(name):
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    return model


def is_of_head(name):
    return name.startswith(("classifier.", "score."))


def logits_of(model, tokenizer, protein):
    return model(**tokenizer(protein["sequence"], return_tensors="pt")).logits[0]


def compare_predictions(program, work, folder, model, tokenizer, proteins):
    """Of chains the rows of the table, of residues those of labels.csv."""
    import torch

    run(program, work, "predict", folder, "--set", "task.test_path=all.csv", "--output", f"{folder}.csv")
    worst = 0
    by_residue = list(table(work / f"{folder}-files" / "labels.csv")) if (work / f"{folder}-files" / "labels.csv").exists() else None
    for row, protein in zip(table(work / f"{folder}.csv"), proteins, strict=True):
        assert row["id"] == protein["id"]
        logits = logits_of(model, tokenizer, protein).detach()
        if model.config.problem_type == "regression":
            difference = abs(float(row["prediction"]) - logits.item()) / max(abs(logits.item()), 1)
            assert difference <= NUMBER_TOLERANCE, f"{row}: theirs {logits.item()}"
        elif by_residue is None:
            p = torch.softmax(logits, 0)
            difference = max(abs(float(row[f"p_{name}"]) - p[k].item()) for k, name in enumerate(CLASSES))
            assert difference <= CELL_TOLERANCE and row["prediction"] == CLASSES[p.argmax()], f"{row}: theirs {p}"
        else:
            p = torch.softmax(logits[1:-1], 1)
            rows, by_residue = by_residue[:len(p)], by_residue[len(p):]
            assert "".join(r["residue"] for r in rows) == protein["sequence"] and row["prediction"] == "".join(r["prediction"] for r in rows)
            assert row["prediction"] == "".join(STATES[k] for k in p.argmax(1).tolist())
            difference = max(abs(float(r[f"p_{state}"]) - p[n, k].item()) for n, r in enumerate(rows) for k, state in enumerate(STATES))
            assert difference <= CELL_TOLERANCE, f"{protein['id']}: differs by {difference}"
        worst = max(worst, difference)
    assert not by_residue
    return worst


def their_loss(model, tokenizer, proteins, deviation):
    """The mean over labels, of numbers in units of their variance."""
    import torch

    losses, count = [], 0
    for protein in proteins:
        logits = logits_of(model, tokenizer, protein)
        if model.config.problem_type == "regression":
            losses.append(((logits[0] - float(protein["kelvin"])) / deviation) ** 2)
            count += 1
        elif logits.dim() == 1:
            losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(CLASSES.index(protein["place"]))))
            count += 1
        else:
            known = [n for n, state in enumerate(protein["states"]) if state != "?"]
            right = torch.tensor([STATES.index(protein["states"][n]) for n in known])
            losses.append(torch.nn.functional.cross_entropy(logits[1:-1][known], right, reduction="sum"))
            count += len(known)
    return sum(losses) / count


def compare_step(program, work, folder, model, tokenizer, proteins, column):
    """One step of plain gradient descent, and transformers' gradients beside what it changed."""
    import torch

    learnt = [protein for protein in proteins if protein["split"] == "train"]
    deviation = torch.tensor([float(protein["kelvin"]) for protein in learnt]).std().item()
    run_dir = f"run-{folder}"
    (work / f"{folder}.toml").write_text(f"""
run.dir = "{run_dir}"
task = {{ plugin = "protein", sequences = "all.csv", split.by = "column", label.column = "{column}" }}
optimizer = {{ kind = "sgd", lr = {RATE}, momentum = 0.0, weight_decay = 0.0 }}
schedule.kind = "constant"
train = {{ init_from = "{folder}", global_batch = {len(learnt)}, micro_batch = {len(learnt)}, max_steps = 1, clip_grad_norm = 0.0 }}
""", encoding="utf-8")
    run(program, work, "run", f"{folder}.toml")
    run(program, work, "export", run_dir, "--output", f"{folder}-new")
    with open(work / run_dir / "metrics.jsonl", encoding="utf-8") as lines:
        ours = next(row["loss"] for row in map(json.loads, lines) if "loss" in row)
    new = type(model).from_pretrained(work / f"{folder}-new")
    assert new.config.id2label == model.config.id2label and new.config.problem_type == model.config.problem_type
    loss = their_loss(model, tokenizer, learnt, deviation)
    loss.backward()
    assert abs(ours / loss.item() - 1) <= LOSS_TOLERANCE, f"{folder}: loss {ours}, theirs {loss.item()}"
    worst, changed = 0, dict(new.named_parameters())
    of_head = {"weight": deviation**2, "bias": deviation**2} if model.config.problem_type == "regression" else {}
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    for name, gradient in gradients.items():
        # The head of numbers is learnt as (number - mean) / deviation: a step of it is larger in the folder.
        factor = of_head.get(name.rsplit(".", 1)[1], 1) if name.startswith("classifier.out_proj") else 1
        step = (dict(model.named_parameters())[name].detach() - changed[name].detach()) / (RATE * factor)
        difference = (step - gradient).abs().max().item() / max(gradient.abs().max().item(), 1e-2)
        assert difference <= GRADIENT_TOLERANCE, f"{folder}: {name} differs by {difference}"
        worst = max(worst, difference)
    assert len(gradients) >= 30, "all layers learn"
    return worst


def main():
    arguments = started("program", "torch", "transformers")
    import torch
    import transformers

    torch.manual_seed(11)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        proteins = make_proteins(8)
        write_table(work / "all.csv", proteins)
        names = dict(enumerate(CLASSES))
        one_class = "single_label_classification"
        for family, (name, kind, column, labels) in itertools.product(("esm", "esmc"), (
                ("places", "ForSequenceClassification", "place", dict(id2label=names, label2id={n: i for i, n in names.items()}, problem_type=one_class)),
                ("melting", "ForSequenceClassification", "kelvin", dict(id2label={0: "LABEL_0"}, label2id={"LABEL_0": 0}, problem_type="regression")),
                ("states", "ForTokenClassification", "states", dict(id2label=dict(enumerate(STATES)), label2id={s: i for i, s in enumerate(STATES)}, problem_type=one_class)))):
            folder = f"{family}-{name}"
            model = make_folder(work / folder, family, kind, **labels)
            tokenizer = transformers.AutoTokenizer.from_pretrained(work / folder)
            predictions = compare_predictions(arguments.program, work, folder, model, tokenizer, proteins)
            step = compare_step(arguments.program, work, folder, model, tokenizer, proteins, column)
            print(f"{folder}: predictions of {len(proteins)} proteins within {predictions:.1e}, one step's gradients within {step:.1e}")


if __name__ == "__main__":
    main()
