"""Compares the embeddings and mutation scores that `pipeline predict` writes for an ESM-2 or ESM C folder and sequences with transformers on the
same folder: every layer, both poolings, safetensors and Parquet; masked and wild-type marginals and pseudo-perplexity.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import tempfile
from pathlib import Path

from comparison import run_on_cpu, started, table

EMBEDDING_TOLERANCE = 1e-5  # of the largest value
SCORE_TOLERANCE = 2e-5  # of a score; the table has six decimals
# Letters without a meaning of their own, small letters, and one that is longer than task.data.max_residues.
SEQUENCES = {"sp|P1|ONE": "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ", "two": "MUOBZXGSSGSSGLVPRGSHMKKKRWWYACDE", "three": "ACDEFGHIKLMNPQRSTVWY" * 30, "four": "gshmwcpdnytfaelk"}
LAYERS = 3
# The mutation, and its places from 0.
VARIANTS = [("P1", "K2A"), ("P1", "K2A:T3G"), ("P1", "Y5W"), ("P1", "Q33M"), ("sp|P1|ONE", "Y5W;K2A"), ("two", "M1G"), ("two", "E32D")]


def run(program, work, name, *options):
    run_on_cpu(program, work, "predict", "model", "--set", "task.test_path=some.fasta", "--set", "task.data.min_residues=1", "--output", f"{name}.csv", *options)
    return work / f"{name}-files"


def close(what, ours, theirs):
    difference = (ours - theirs).abs().max().item() / theirs.abs().max().item()
    assert ours.shape == theirs.shape and difference <= EMBEDDING_TOLERANCE, f"{what}: {ours.shape}, {theirs.shape}, differ by {difference}"
    return difference


def compare_embeddings(program, work, model, tokenizer, with_parquet):
    import torch
    from safetensors import safe_open
    from safetensors.torch import load_file

    worst = 0
    for layer, pooling in [(-1, "mean"), (LAYERS, "cls"), (0, "mean"), (1, "mean"), (2, "cls")]:
        formats = '["safetensors", "parquet"]' if with_parquet else '["safetensors"]'
        folder = run(program, work, f"embeddings{layer}{pooling}", "--set", 'task.predict.what=["embeddings", "residue_embeddings"]', "--set",
                     f"task.predict.layer={layer}", "--set", f"task.predict.pooling={pooling}", "--set", f"task.predict.formats={formats}")
        with safe_open(folder / "embeddings.safetensors", "pt") as file:
            assert file.metadata()["pooling"] == pooling and file.metadata()["layer"] == str(LAYERS if layer < 0 else layer)
            chains = file.get_tensor("embeddings")
        residues = load_file(folder / "residue-embeddings-00001-of-00001.safetensors")
        assert sorted(residues) == sorted(SEQUENCES)
        for i, (name, sequence) in enumerate(SEQUENCES.items()):
            states = model(**tokenizer(sequence.upper(), return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0]
            assert states.shape[0] == len(sequence) + 2
            worst = max(worst, close(f"layer {layer} of {name}", residues[name], states[1:-1]))
            worst = max(worst, close(f"{pooling} of layer {layer} of {name}", chains[i], states[1:-1].mean(0) if pooling == "mean" else states[0]))
        if not with_parquet:
            continue
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(folder / "embeddings.parquet").to_pylist()
        assert [row["id"] for row in table] == list(SEQUENCES) and [row["residues"] for row in table] == [len(s) for s in SEQUENCES.values()]
        assert torch.equal(torch.tensor([row["embedding"] for row in table]), chains)
        table = pyarrow.parquet.read_table(folder / "residue-embeddings.parquet").to_pylist()
        assert "".join(row["residue"] for row in table) == "".join(SEQUENCES.values()).upper()
        assert [row["number"] for row in table] == [n + 1 for s in SEQUENCES.values() for n in range(len(s))]
        assert torch.equal(torch.tensor([row["embedding"] for row in table]), torch.cat([residues[name] for name in SEQUENCES]))
    return worst


def places_of(mutation):
    return [(one[0], int(one[1:-1]) - 1, one[-1]) for one in mutation.replace(";", ":").split(":")]


def their_score(model, tokenizer, sequence, mutation, scoring):
    import torch

    number = tokenizer.convert_tokens_to_ids
    ids = tokenizer(sequence, return_tensors="pt").input_ids

    def log_p(rows):
        return torch.log_softmax(model(input_ids=rows).logits.double(), dim=-1)

    def pseudo_likelihood(row):
        known = [i for i in range(1, row.shape[1] - 1) if row[0, i].item() in set(number(list("ACDEFGHIKLMNPQRSTVWY")))]
        masked = row.repeat(len(known), 1)
        masked[range(len(known)), known] = tokenizer.mask_token_id
        return log_p(masked)[range(len(known)), known, row[0, known]].sum().item()

    changes = places_of(mutation)
    if scoring == "pseudo-perplexity":
        mutant = ids.clone()
        for _, place, to in changes:
            mutant[0, place + 1] = number(to)
        return pseudo_likelihood(mutant) - pseudo_likelihood(ids)
    seen = ids.clone()
    if scoring == "masked":
        seen[0, [place + 1 for _, place, _ in changes]] = tokenizer.mask_token_id
    all_p = log_p(seen)[0]
    return sum((all_p[place + 1, number(to)] - all_p[place + 1, number(was)]).item() for was, place, to in changes)


def compare_scores(program, work, model, tokenizer):
    worst = 0
    sequences = {**SEQUENCES, "P1": SEQUENCES["sp|P1|ONE"]}
    for scoring in ("masked", "wild-type", "pseudo-perplexity"):
        wanted = [(name, mutation) for name, mutation in VARIANTS if name != "sp|P1|ONE"]
        theirs = [their_score(model, tokenizer, sequences[name], mutation, scoring) for name, mutation in wanted]
        with open(work / "measured.csv", "w", encoding="utf-8") as file:
            file.write("id,mutation,dms\n" + "".join(f"{name},{mutation},{score}\n" for (name, mutation), score in zip(wanted, theirs)))
        folder = run(program, work, f"scores-{scoring}", "--set", 'task.predict.what=["embeddings"]', "--set", "task.predict.mutations=measured.csv", "--set",
                     f"task.predict.scoring={scoring}", "--set", "task.predict.measured_column=dms")
        ours = table(folder / "variants.csv")
        assert [row["mutation"] for row in ours] == [mutation for _, mutation in wanted]
        for row, score in zip(ours, theirs):
            assert abs(float(row["score"]) - score) <= SCORE_TOLERANCE * max(1, abs(score)), f"{scoring}: {row}, theirs {score}"
            worst = max(worst, abs(float(row["score"]) - score))
        assert [row["spearman"] for row in table(folder / "spearman.csv")] == ["1.0000", "1.0000"], "the order is that of the scores themselves"
    return worst


def main():
    arguments = started("program", "torch", "transformers", switches=("with-parquet",))
    import esm2_reference
    import torch
    from transformers import AutoTokenizer

    for kind in ("esm", "esmc"):
        torch.manual_seed(7)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            work = Path(folder)
            model = esm2_reference.save_model(work / "model", kind, hidden_size=40, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=80)
            (work / "some.fasta").write_text("".join(f">{name} words\n{sequence}\n" for name, sequence in SEQUENCES.items()), encoding="utf-8")
            tokenizer = AutoTokenizer.from_pretrained(work / "model")
            embeddings = compare_embeddings(arguments.program, work, model, tokenizer, arguments.with_parquet)
            scores = compare_scores(arguments.program, work, model, tokenizer)
        print(f"{kind}: embeddings differ by at most {embeddings:.1e} of the largest, scores by {scores:.1e}")


if __name__ == "__main__":
    main()
