"""Records tests/scores/rouge/fixtures/rouge.jsonl and stems.txt: what Python's rouge_score and NLTK say of a few hundred real texts.

Run it with a Python that has requirements.txt, after scripts/data/debian-descriptions; the files it writes are committed.
"""
import json
import os
import sys

import rouge_samples as samples
from nltk.stem.porter import PorterStemmer

FIXTURES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "summarization", "fixtures")
LONGEST = 500  # characters; keeps the file small


def main():
    rows = [row for row in samples.read_set("test") if len(row["document"]) <= LONGEST]
    scorers = samples.make_scorers()
    pairs = samples.pairs_of(rows, 300, seed=3) + list(zip(samples.AWKWARD, samples.AWKWARD[1:] + samples.AWKWARD[:1]))
    with open(os.path.join(FIXTURES, "rouge.jsonl"), "w", encoding="utf-8") as file:
        for target, prediction in pairs:
            scores = samples.reference_scores(scorers, target, prediction)
            rounded = [[[round(x, 9) for x in s] for s in kinds] for kinds in scores]
            file.write(json.dumps({"target": target, "prediction": prediction, "scores": rounded}, ensure_ascii=False) + "\n")
    words = sorted(set(samples.words_of(rows, 1500, seed=4)))[::3]
    with open(os.path.join(FIXTURES, "stems.txt"), "w", encoding="utf-8") as file:
        for word in words:
            file.write(f"{word} {PorterStemmer().stem(word)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
