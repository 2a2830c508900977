"""Texts to compare ROUGE on, from the set of real package descriptions, and what Python's rouge_score says of them."""
import json
import os
import random

TYPES = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]

# Lower-casing, apostrophes, accents, digits, other scripts, empty texts and empty lines.
AWKWARD = [
    "", " ", "\n", "\n\n", "a", "A b", "\u212aelvin \u0130stanbul", "KELVIN istanbul", "don't stop", "caf\u00e9 na\u00efve",
    "foo_bar 3.14", "\u0393\u03b5\u03b9\u03b1 \u03a3\u039f\u03a6\u0399\u03a3 x", "\u65e5\u672c\u8a9e text \u4e2d\u6587", "\u00df\u1e9e SS", "\ufb01ne fine",
    "one\ntwo\n\nthree", "one two three", "one\r\ntwo", "\u0661\u0662 12", "x\u0000y", "\U0001f600 smile", "\u00c5ngstr\u00f6m \u212bngstr\u00f6m",
    "the the the the", "the\nthe\nthe", "dies died dying skies", "generously rationally hopefully", "yyyyyyyy ayyyyyed",
]


def data_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "pipeline", "data", "debian-descriptions")


def read_set(split):
    with open(os.path.join(data_folder(), f"{split}.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def lead(text, words=12):
    return " ".join(text.split()[:words])


def pairs_of(rows, count, seed):
    """(target, prediction): summaries against leads and other summaries; documents and their rearranged lines against others."""
    rng = random.Random(seed)
    out = []
    for row in rng.sample(rows, count):
        other = rng.choice(rows)
        lines = row["document"].split("\n")
        shuffled = rng.sample(lines, len(lines))
        sentences = row["document"].replace(". ", ".\n")
        kind = len(out) % 5
        out.append([
            (row["summary"], lead(row["document"])),
            (row["summary"], other["summary"]),
            (row["document"], "\n".join(shuffled[: max(1, len(lines) // 2)])),
            (sentences, other["document"].replace(", ", "\n")),
            (row["summary"], row["document"]),
        ][kind])
    return out


def reference_scores(scorers, target, prediction):
    """Per stemming, per type: [precision, recall, f]."""
    result = []
    for scorer in scorers:
        scores = scorer.score(target, prediction)
        result.append([[scores[t].precision, scores[t].recall, scores[t].fmeasure] for t in TYPES])
    return result


def make_scorers():
    from rouge_score import rouge_scorer

    return [rouge_scorer.RougeScorer(TYPES, use_stemmer=stem) for stem in (False, True)]


def words_of(rows, count, seed):
    """Words of the texts, and made-up ones from every suffix that the stemmer knows."""
    from rouge_score import tokenize

    words = set()
    for row in rows:
        words.update(tokenize.tokenize(row["document"], None))
    rng = random.Random(seed)
    chosen = rng.sample(sorted(words), min(count, len(words)))
    stems = ["a", "b", "by", "sky", "fl", "tr", "ge", "theo", "oper", "relat", "feed", "agre", "controll", "hopp", "fizz", "yy", "aye", "x1"]
    endings = ("s ss sses ies ied eed ed ing at bl iz y ational tional enci anci izer bli alli entli eli ousli ization ation ator "
               "alism iveness fulness ousness aliti iviti biliti fulli logi icate ative alize iciti ical ful ness al ance ence er "
               "ic able ible ant ement ment ent ion sion tion ou ism ate iti ous ive ize e ll").split()
    made = [a + b for a in stems for b in endings] + [a + b + c for a in stems for b in endings for c in ("ed", "ing", "li", "s", "ly")]
    return chosen + made
