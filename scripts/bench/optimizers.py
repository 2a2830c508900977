"""Steps of one GPT-2 with different optimizers, ours and PyTorch's, in turns; see scripts/bench/optimizers.

How turns are taken: side_by_side.py. All have the same weights and examples; in the first step, which no optimizer has touched, all must have
the same loss.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

from gpt2_side_by_side import Examples, make_model, peer_command, write_config
from side_by_side import TOLERANCE, Peer, Pipeline, take_turns_all

OURS = {"AdamW": [], "Muon": ["optimizer.kind=muon"], "AdamW, moving average": ["optimizer.ema_decay=0.999"],
        "AdamW, 16 bits": ["optimizer.state_bits=16"], "AdamW, 8 bits": ["optimizer.state_bits=8"]}
THEIRS = {"PyTorch's AdamW": [], "PyTorch's Muon": ["--muon"]}
PAIRS = [("AdamW", "PyTorch's AdamW"), ("Muon", "PyTorch's Muon"), ("Muon", "AdamW"), ("PyTorch's Muon", "PyTorch's AdamW"),
         *((name, "AdamW") for name in list(OURS)[2:])]
# Bytes for each parameter, more than AdamW's 8; codes have a scale in float32 for each block of 64.
MORE = {"AdamW, moving average": 4, "AdamW, 16 bits": 2 * 2 - 8, "AdamW, 8 bits": 2 * (1 + 4 / 64) - 8}


def start(name, folder, config, arguments):
    if name in THEIRS:
        return Peer(name, peer_command(folder, folder / "model", arguments) + THEIRS[name])
    run = "run-" + "".join(c for c in name if c.isalnum())
    settings = [f"run.dir={run}", *OURS[name]]
    return Pipeline(folder, [arguments.pipeline, "run", config, *(word for setting in settings for word in ("--set", setting))], run)


def report(of, parameters, arguments):
    print(f"{parameters / 1e6:.1f} million parameters, {arguments.batch} examples of at most {arguments.most} tokens a step, {arguments.threads} threads\n"
          f"{'':24} {'s/step':>7} {'CPU s':>7} {'peak MiB':>9}")
    for name, one in of.items():
        print(f"{name:24} {statistics.median(one.seconds) / arguments.steps:7.3f} {statistics.median(one.cpu) / arguments.steps:7.2f} "
              f"{one.peak / 2**20:9.0f}")
    for name, other in PAIRS:
        if not {name, other} <= of.keys():
            continue
        one, two = of[name], of[other]
        ratios = [a / b for a, b in zip(one.seconds, two.seconds)]
        line = f"{name} / {other}: time {statistics.median(ratios):.3f}, CPU time {sum(one.cpu) / sum(two.cpu):.3f}"
        if name in MORE:
            line += f", memory {(one.peak - two.peak) / 2**20:+.0f} MiB (formula: {MORE[name] * parameters / 2**20:+.0f})"
        apart = max(abs(a / b - 1) for a, b in zip(one.losses, two.losses))
        print(f"{line}; losses differ by at most {apart:.1e} (turns: {' '.join(f'{ratio:.2f}' for ratio in ratios)})", flush=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what it has started
    parser = argparse.ArgumentParser(prog="scripts/bench/optimizers", description="Steps with different optimizers, ours and PyTorch's.")
    parser.add_argument("--pipeline", type=os.path.abspath, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", choices=[*OURS, *THEIRS], default=[*OURS, *THEIRS], metavar="NAME",
                        help=f"of: {', '.join(map(repr, [*OURS, *THEIRS]))}")
    parser.add_argument("--batch", type=int, default=8, help="examples per step (8)")
    parser.add_argument("--most", type=int, default=256, help="tokens per example (256)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="for each (all cores)")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--steps", type=int, default=2, help="per turn")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    arguments = parser.parse_args()
    arguments.python, arguments.language_model = False, True  # loss over all tokens: the same work in each step

    pairs = [json.loads(line) for line in arguments.pairs.read_text().splitlines()]
    random.Random(0).shuffle(pairs)
    steps = arguments.turns * arguments.steps
    with tempfile.TemporaryDirectory(prefix="pipeline-bench-") as name:
        folder = Path(name)
        make_model(folder / "model", arguments)
        examples = Examples(folder / "model", arguments.most).language_model(pairs, (steps + 1) * arguments.batch)
        (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair, _ in examples))
        (folder / "tokens.jsonl").write_text("".join(json.dumps(example) + "\n" for _, example in examples))
        config = write_config(folder, folder / "model", arguments, steps)
        starts = [partial(start, name, folder, config, arguments) for name in arguments.only]
        of = dict(zip(arguments.only, take_turns_all(starts, arguments.turns, arguments.steps)))
        first = [one.losses[0] for one in of.values()]
        if not max(first) / min(first) - 1 <= TOLERANCE:
            raise SystemExit(f"the first losses are not the same: {first}")
        parameters = (50257 + 1024) * arguments.width + arguments.layers * (12 * arguments.width**2 + 13 * arguments.width) + 2 * arguments.width
        report(of, parameters, arguments)


if __name__ == "__main__":
    main()
