"""Compares our ROUGE with Python's rouge_score on thousands of real pairs: every score within 1e-6, every stem equal.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import argparse
import json
import os
import subprocess
import sys

from peer_packages import needed, skip, use_their_python

TOLERANCE = 1e-6
PAIRS = 5000
WORDS = 30000


def ask(program, requests):
    text = "".join(json.dumps(request) + "\n" for request in requests)
    result = subprocess.run([program], input=text, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True)
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(answers) == len(requests), f"{len(answers)} answers to {len(requests)} requests"
    return answers


def main():
    use_their_python()
    parser = argparse.ArgumentParser()
    parser.add_argument("--scores", required=True, help="the program rouge_scores")
    arguments = parser.parse_args()

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import rouge_samples as samples

    with needed():
        scorers = samples.make_scorers()
    try:
        rows = samples.read_set("val") + samples.read_set("test")
    except OSError as error:
        skip(f"{error}: run scripts/data/debian-descriptions")

    pairs = samples.pairs_of(rows, min(PAIRS, len(rows)), seed=1)
    pairs += [(a, b) for a in samples.AWKWARD for b in samples.AWKWARD]
    answers = ask(arguments.scores, [{"target": a, "prediction": b} for a, b in pairs])
    worst, wrong = 0.0, 0
    for (target, prediction), answer in zip(pairs, answers):
        expected = samples.reference_scores(scorers, target, prediction)
        for stem, (ours, theirs) in enumerate(zip(answer, expected)):
            for kind, a, b in zip(samples.TYPES, ours, theirs):
                difference = max(abs(x - y) for x, y in zip(a, b))
                worst = max(worst, difference)
                if difference > TOLERANCE:
                    wrong += 1
                    if wrong <= 5:
                        print(f"{kind} stemming={bool(stem)}: ours {a}, theirs {b}\n  {target!r}\n  {prediction!r}")

    from nltk.stem.porter import PorterStemmer

    words = samples.words_of(rows, WORDS, seed=2)
    stemmer = PorterStemmer()
    for word, ours in zip(words, ask(arguments.scores, [{"word": word} for word in words])):
        if ours != stemmer.stem(word):
            wrong += 1
            print(f"stem of {word}: ours {ours}, theirs {stemmer.stem(word)}")
    print(f"{len(pairs)} pairs x {len(samples.TYPES)} types x 2, largest difference {worst:.3g}; {len(words)} stems; {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
