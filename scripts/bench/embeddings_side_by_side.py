"""Embeds proteins with `pipeline predict` and with transformers + Accelerate in turns; see scripts/bench/embeddings.

A turn is the whole file. Ours is timed as it says itself ("256 samples in 3.1 s"), which leaves out what starting takes, theirs from the first batch to the
last vector, once everything is loaded. The peer is twice: batches in the file's order, and batches of similar length, which is the best that padding can do.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "parity"))

SIZES = {"esm2-8M": dict(hidden_size=320, num_hidden_layers=6, num_attention_heads=20, intermediate_size=1280),
         "esm2-35M": dict(hidden_size=480, num_hidden_layers=12, num_attention_heads=20, intermediate_size=1920),
         "esm2-650M": dict(hidden_size=1280, num_hidden_layers=33, num_attention_heads=20, intermediate_size=5120)}
TOLERANCE = {"fp32": 1e-5, "bf16": 5e-2}  # of the largest value: what differs by more is not the same computation


def make_sequences(count):
    """Lengths as in UniProt: half of them below 270 residues, a few of a thousand."""
    pick = random.Random(0)
    return ["".join(pick.choices("ACDEFGHIKLMNPQRSTVWY", k=max(30, min(1000, round(pick.lognormvariate(5.6, 0.6)))))) for _ in range(count)]


class Theirs:
    def __init__(self, folder, arguments):
        import torch
        from accelerate import Accelerator
        from transformers import AutoTokenizer, EsmModel

        self.torch, self.batch = torch, arguments.batch
        self.accelerator = Accelerator(cpu=arguments.device == "cpu")
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        dtype = torch.bfloat16 if arguments.precision == "bf16" else torch.float32
        self.model = self.accelerator.prepare(EsmModel.from_pretrained(folder, add_pooling_layer=False, dtype=dtype)).eval()

    def turn(self, sequences, by_length):
        torch = self.torch
        begin = time.perf_counter()
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i])) if by_length else range(len(sequences))
        loader = torch.utils.data.DataLoader(list(order), batch_size=self.batch, collate_fn=lambda ids: (
            ids, self.tokenizer([sequences[i] for i in ids], return_tensors="pt", padding=True)))
        vectors = torch.empty(len(sequences), self.model.config.hidden_size)
        with torch.inference_mode():
            for ids, batch in loader:
                batch = batch.to(self.accelerator.device)
                states = self.model(**batch).last_hidden_state.float()
                mask = batch["attention_mask"].clone()
                mask[:, 0] = 0  # neither <cls> nor <eos> is a residue
                mask[torch.arange(len(ids), device=mask.device), batch["attention_mask"].sum(1) - 1] = 0
                vectors[ids] = ((states * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)).cpu()
        return time.perf_counter() - begin, vectors


def our_turn(arguments, folder):
    command = [arguments.pipeline, "predict", "esm2", "--set", "task.test_path=some.fasta", "--set", 'task.predict.what=["embeddings"]', "--set",
               "task.predict.pictures=false", "--set", f"run.device={arguments.device}", "--set", f"train.precision={arguments.precision}", "--set", "run.cache_dir=cache", "--set", f"launch.threads={arguments.threads}",
               "--output", "ours.csv"]
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    told = re.search(r"(\d+) samples in ([\d.]+) s", done.stdout)
    if done.returncode != 0 or not told:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout[-2000:]}")
    seconds = float(told.group(2))
    from safetensors.torch import load_file

    vectors = load_file(folder / "ours-files" / "embeddings.safetensors")["embeddings"]
    for file in [folder / "ours.csv", *(folder / "ours-files").iterdir()]:
        file.unlink()
    return seconds, vectors


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench/embeddings", description="pipeline predict beside transformers + Accelerate.")
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--proteins", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16, help="of theirs (16)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each of the two (all cores)")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda (cpu)")
    parser.add_argument("--precision", choices=TOLERANCE, default="fp32", help="of both (fp32)")
    parser.add_argument("--json", action="store_true", help="the figures once more, as a line of JSON")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()

    import esm2_reference
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    sequences = make_sequences(arguments.proteins)
    residues = sum(map(len, sequences))
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder = Path(name)
        esm2_reference.save_model(folder / "esm2", "esm", **SIZES[arguments.model])
        (folder / "some.fasta").write_text("".join(f">p{i}\n{sequence}\n" for i, sequence in enumerate(sequences)))
        theirs = Theirs(folder / "esm2", arguments)
        seconds = {"pipeline": [], "file's order": [], "by length": []}
        theirs.turn(sequences[:16], False), our_turn(arguments, folder)
        for _ in range(arguments.turns):
            for kind in ("file's order", "pipeline", "by length"):
                took, vectors = our_turn(arguments, folder) if kind == "pipeline" else theirs.turn(sequences, kind == "by length")
                seconds[kind].append(took)
                if kind == "pipeline":
                    ours = vectors
                else:
                    theirs_vectors = vectors
    difference = ((ours - theirs_vectors).abs().max() / theirs_vectors.abs().max()).item()
    for kind, turns in seconds.items():
        print(f"{kind:13} {residues / statistics.median(turns):9.0f} residues/s ({json.dumps([round(t, 2) for t in turns])} s)")
    for kind in ("file's order", "by length"):
        ratios = [a / b for a, b in zip(seconds[kind], seconds["pipeline"])]
        print(f"speed {statistics.median(ratios):.2f} times theirs, {kind} (turns: {' '.join(f'{r:.2f}' for r in ratios)})")
    print(f"{arguments.proteins} proteins of {residues} residues; the vectors differ by {difference:.1e} of the largest value")
    if arguments.json:
        speeds = {kind: residues / statistics.median(turns) for kind, turns in seconds.items()}
        print(json.dumps({"residues/s": speeds["pipeline"], "ratio": speeds["pipeline"] / speeds["file's order"],
                          "ratio by length": speeds["pipeline"] / speeds["by length"], "largest difference": difference}))
    if not difference <= TOLERANCE[arguments.precision]:
        raise SystemExit("these are not the same computations, and their times tell nothing")


if __name__ == "__main__":
    main()
