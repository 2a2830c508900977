"""Compares what `pipeline predict` and `pipeline evaluate` make of a model's folder alone, as the command line gives it, with transformers
on the same folder and data: an ESM-2 and an ESM C on proteins, language models on pairs and on conversations. There is no run, and nothing is trained.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import functools
import itertools
import json
import math
import tempfile
from pathlib import Path

from comparison import run_on_cpu as run
from comparison import started, table

LOSS_TOLERANCE = 1e-5  # of a mean loss, relative
CELL_TOLERANCE = 0.5e-4 + 2e-6  # of a table's cells, which have four decimals
LETTERS = "ACDEFGHIKLMNPQRSTVWY"
NAMES = "ALA CYS ASP GLU PHE GLY HIS ILE LYS LEU MET ASN PRO GLN ARG SER THR VAL TRP TYR".split()
SEQUENCES = ["MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ", "GSHMWCPDNYTFAELKVRIHQMGSTAWYKDEFLCNPRVIHG", "ACDEFGHIKLMNPQRSTVWYYWVTSRQPNMLKIHGFEDCA" * 2]
PAIRS = [("the red apples and the green pears are in the basket", "fruit in a basket"), ("a hash of numbers and of words", "numbers"),
         ("A cat sat on the mat; the dog did not.", "A cat sat.")]
CHATS = [("What is red?", "An apple."), ("And what is green?", "A pear, or a hat."), ("Why?", "Because it's so.\nOften.")]
NEW = 24
LANGUAGE = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                max_position_embeddings=256, initializer_range=0.1)


def figures(file):
    return json.loads(file.read_text(encoding="utf-8"))["figures"]


def close(what, ours, theirs, tolerance=LOSS_TOLERANCE):
    difference = abs(ours / theirs - 1)
    assert difference <= tolerance, f"{what}: ours {ours}, transformers {theirs}"
    return difference


def write_structure(file, sequence):
    """An alpha helix with this sequence."""
    lines = []
    for i, letter in enumerate(sequence):
        for atom, radius, angle, rise in (("N", 1.55, -27, -0.9), ("CA", 2.3, 0, 0), ("C", 1.7, 27, 1.1)):
            turn = math.radians(100 * i + angle)
            lines.append(f"ATOM  {len(lines) + 1:5d}  {atom:<3s} {NAMES[LETTERS.index(letter)]} A{i + 1:4d}    {radius * math.cos(turn):8.3f}"
                         f"{radius * math.sin(turn):8.3f}{1.5 * i + rise:8.3f}  1.00 20.00           {atom[0]}")
    file.write_text("\n".join([*lines, "TER", "END", ""]), encoding="utf-8")


def probabilities(model, tokenizer, sequence, all_at_once):
    """Of the twenty amino acids at each residue while it is masked: alone, or all residues together."""
    import torch

    ids = tokenizer(sequence, return_tensors="pt").input_ids
    places = torch.arange(1, len(sequence) + 1)
    rows = ids.repeat(1 if all_at_once else len(sequence), 1)
    rows[0 if all_at_once else places - 1, places] = tokenizer.mask_token_id
    logits = model(input_ids=rows).logits[0 if all_at_once else places - 1, places]
    return torch.log_softmax(logits[:, [tokenizer.convert_tokens_to_ids(letter) for letter in LETTERS]].double(), dim=1)


def read_residues(file):
    """The sequence, and at each residue the probabilities of the twenty."""
    rows = table(file)
    return "".join(row["residue"] for row in rows), [{row[f"top{k}"]: float(row[f"p{k}"]) for k in range(1, 21)} for row in rows]


def difference_at(ours, log_p):
    return max(abs(ours[letter] - log_p[i].exp().item()) for i, letter in enumerate(LETTERS))


def compare_groups(program, work, model, tokenizer):
    """Ten residues in two groups, each masked as a whole: one division of all that there are, and no other, gives what ours predicts."""
    import torch

    sequence = SEQUENCES[1][:10]
    (work / "short").mkdir()
    write_structure(work / "short" / "s.pdb", sequence)
    run(program, work, "predict", "esm2", "--set", "task.test_path=short", "--set", "task.predict.maskings=2", "--set", "task.predict.top=20", "--set",
        "task.data.min_residues=10", "--output", "short.csv")
    name = table(work / "short.csv")[0]["id"].replace("/", "-")
    read, ours = read_residues(work / "short-files" / f"{name}-residues.csv")
    assert read == sequence
    groups = list(itertools.combinations(range(10), 5))
    ids = tokenizer(sequence, return_tensors="pt").input_ids.repeat(len(groups), 1)
    for row, group in enumerate(groups):
        ids[row, [1 + i for i in group]] = tokenizer.mask_token_id
    log_p = torch.log_softmax(model(input_ids=ids).logits[:, 1:-1][:, :, tokenizer.convert_tokens_to_ids(list(LETTERS))].double(), dim=2)
    fits = [group for row, group in enumerate(groups) if all(difference_at(ours[i], log_p[row, i]) <= CELL_TOLERANCE for i in group)]
    assert len(fits) == 2 and sorted(fits[0] + fits[1]) == list(range(10)), f"groups that fit: {fits}"


def compare_proteins(program, work, kind="esm"):
    import esm2_reference
    import torch
    from transformers import AutoTokenizer

    torch.manual_seed(5)
    folder = work / "esm2"
    model = esm2_reference.save_model(folder, kind, hidden_size=40, num_hidden_layers=3, num_attention_heads=4, intermediate_size=80)
    (work / "structures").mkdir()
    for i, sequence in enumerate(SEQUENCES):
        write_structure(work / "structures" / f"s{i}.pdb", sequence)
    (work / "protein.toml").write_text('[task]\nplugin = "protein"\ntest_path = "structures"\n', encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(folder)

    worst = 0.0
    for maskings, all_at_once in ((1000, False), (1, True)):
        out = run(program, work, "predict", "esm2", "--set", "task.test_path=structures", "--set", f"task.predict.maskings={maskings}", "--set",
                  "task.predict.top=20", "--set", "task.predict.pictures=false")
        assert "task protein of esm2" in out and "written to runs/esm2-model/submission.csv" in out, out
        for row in table(work / "runs/esm2-model/submission.csv"):
            sequence = SEQUENCES[int(row["id"][1])]
            log_p = probabilities(model, tokenizer, sequence, all_at_once)
            read, residues = read_residues(work / "runs/esm2-model/submission-files" / (row["id"].replace("/", "-") + "-residues.csv"))
            assert read == sequence
            for ours, theirs in zip(residues, log_p, strict=True):
                difference = difference_at(ours, theirs)
                assert difference <= CELL_TOLERANCE, f"{row['id']}: ours {ours}, transformers {theirs.exp().tolist()}"
                worst = max(worst, difference)
            right = log_p[torch.arange(len(sequence)), [LETTERS.index(letter) for letter in sequence]]
            close(f"perplexity of {row['id']}", float(row["perplexity"]), right.neg().mean().exp().item(), 1e-4)
            close(f"recovery of {row['id']}", 1 + float(row["recovery"]),
                  1 + (log_p.argmax(dim=1) == torch.tensor([LETTERS.index(letter) for letter in sequence])).double().mean().item(), 1e-4)

    compare_groups(program, work, model, tokenizer)

    # The share is so small that each residue is masked alone.
    run(program, work, "evaluate", "protein.toml", "--checkpoint", "esm2", "--set", "task.mask_ratio=0.001")
    (work / "s.fasta").write_text("".join(f">s{i}\n{sequence}\n" for i, sequence in enumerate(SEQUENCES)), encoding="utf-8")
    run(program, work, "evaluate", "esm2", "--set", "task.test_path=s.fasta", "--set", "task.mask_ratio=0.001")
    ours, right, hits = figures(work / "runs/protein/evaluation-test.json"), [], []
    for sequence in SEQUENCES:
        log_p, letters = probabilities(model, tokenizer, sequence, False), torch.tensor([LETTERS.index(letter) for letter in sequence])
        right.append(log_p[torch.arange(len(sequence)), letters])
        hits.append(log_p.argmax(dim=1) == letters)
    loss = torch.cat(right).neg().mean().item()
    off = close("loss of proteins", ours["loss"], loss)
    close("loss of sequences", figures(work / "runs/esm2-model/evaluation-test.json")["loss"], loss)
    close("perplexity of proteins", ours["perplexity"], math.exp(loss))
    assert abs(ours["accuracy"] - torch.cat(hits).double().mean().item()) < 1e-9
    print(f"  {kind}: probabilities of {sum(map(len, SEQUENCES))} residues, masked alone, all together and in groups, differ by at most {worst:.1e}, of which "
          f"their decimals are 5e-05; the loss by {off:.1e}")


def save_language_model(model, kind, template, special, end, folder):
    import chat_tokenizers
    import torch
    import transformers

    folder.mkdir()
    tokenizer = chat_tokenizers.save(kind, special, end, chat_tokenizers.template(template), str(folder))
    sizes = dict(n_embd=48, n_layer=2, n_head=6, n_positions=256, initializer_range=0.1) if model == "GPT2" else LANGUAGE
    torch.manual_seed(6)
    config = getattr(transformers, f"{model}Config")(vocab_size=len(tokenizer), **sizes, bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id)
    kind = "GPT2LMHeadModel" if model == "GPT2" else f"{model}ForCausalLM"
    getattr(transformers, kind)(config).save_pretrained(folder)
    return getattr(transformers, kind).from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)


def sum_of_losses(model, ids, learnt):
    """Over the tokens that `learnt` says; and their number."""
    import torch

    with torch.no_grad():
        log_p = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), dim=1)
    losses = [-log_p[i - 1, ids[i]].item() for i in range(1, len(ids)) if learnt[i]]
    return sum(losses), len(losses)


def written(model, tokenizer, prompt):
    import torch

    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False, max_new_tokens=NEW,
                             pad_token_id=tokenizer.eos_token_id)
    return tokenizer.decode(out[0, len(prompt):], skip_special_tokens=True).strip()


def compare_pairs(program, work):
    """By a configuration that names plugin and data, and --checkpoint."""
    model, tokenizer = save_language_model("GPT2", "smol_lm", "turns", [], "<|endoftext|>", work / "gpt2")
    with open(work / "pairs.jsonl", "w", encoding="utf-8") as file:
        for document, summary in PAIRS:
            file.write(json.dumps({"document": document, "summary": summary}) + "\n")
    (work / "pairs.toml").write_text(f'[task]\nplugin = "summarization"\ndata.test = "pairs.jsonl"\ngenerate.max_tokens = {NEW}\n', encoding="utf-8")
    run(program, work, "evaluate", "pairs.toml", "--checkpoint", "gpt2")
    run(program, work, "predict", "pairs.toml", "--checkpoint", "gpt2")
    encode = lambda text: tokenizer(text, add_special_tokens=False).input_ids  # noqa: E731
    total, count, answers = 0.0, 0, []
    for document, summary in PAIRS:
        prompt, rest = encode(document) + encode("\nTL;DR:\n"), encode(summary) + [tokenizer.eos_token_id]
        loss, tokens = sum_of_losses(model, prompt + rest, [False] * len(prompt) + [True] * len(rest))
        total, count = total + loss, count + tokens
        answers.append(written(model, tokenizer, prompt))
    ours = figures(work / "runs/pairs/evaluation-test.json")
    off = close("loss of pairs", ours["loss"], total / count)
    close("perplexity of pairs", ours["perplexity"], math.exp(total / count))
    texts = [row["summary"].strip() for row in table(work / "runs/pairs/submission.csv")]
    assert texts == answers, f"ours {texts}, transformers {answers}"
    print(f"  GPT-2: the loss of {count} tokens differs by {off:.1e}, and {len(answers)} summaries are equal")


def compare_chats(program, work):
    """By the folder alone."""
    model, tokenizer = save_language_model("Qwen3", "qwen2", "turns", [], "<|im_end|>", work / "qwen3")
    with open(work / "chats.jsonl", "w", encoding="utf-8") as file:
        for question, answer in CHATS:
            file.write(json.dumps({"prompt": question, "completion": answer}) + "\n")
    more = ("qwen3", "--set", "task.data.test=chats.jsonl", "--set", f"task.generate.max_tokens={NEW}")
    assert "task chat of qwen3" in run(program, work, "evaluate", *more)
    run(program, work, "predict", *more)
    total, count, answers = 0.0, 0, []
    for question, answer in CHATS:
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        whole = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
        loss, tokens = sum_of_losses(model, whole["input_ids"], whole["assistant_masks"])
        total, count = total + loss, count + tokens
        answers.append(written(model, tokenizer, tokenizer.apply_chat_template(messages[:1], add_generation_prompt=True, return_dict=True)["input_ids"]))
    ours = figures(work / "runs/qwen3-model/evaluation-test.json")
    off = close("loss of conversations", ours["loss"], total / count)
    close("perplexity of conversations", ours["perplexity"], math.exp(total / count))
    texts = [row["answer"] for row in table(work / "runs/qwen3-model/submission.csv")]
    assert texts == answers, f"ours {texts}, transformers {answers}"
    print(f"  Qwen3: the loss of {count} tokens differs by {off:.1e}, and {len(answers)} answers are equal")


def main():
    options = started("program", "torch", "transformers")
    import torch
    import transformers

    torch.set_grad_enabled(False)
    for compare in (compare_proteins, functools.partial(compare_proteins, kind="esmc"), compare_pairs, compare_chats):
        with tempfile.TemporaryDirectory(prefix="pipeline-parity-") as work:
            compare(options.program, Path(work))
    print(f"equal to transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
