"""Turns package lists into pairs of long description and synopsis: joined, cleaned, deduplicated, split."""
import re

from debian_lists import read_index, stanzas
from splits import SPLITS, hash_of, split_of

MIN_DOCUMENT_WORDS = 5
MIN_SUMMARY_WORDS = 2
SHINGLE = 4  # words
NEAR_DUPLICATE = 0.7  # Jaccard similarity of the shingles of two documents
PUNCTUATION = {code: " " for code in range(128) if not chr(code).isalnum()}


def unfold(lines):
    """Debian policy 5.6.13: ' text' flows, '  text' is verbatim, ' .' is an empty line. Flowing lines are joined."""
    out, flowing = [], False
    for line in lines:
        if line.strip() in ("", "."):
            out.append("")
            flowing = False
        elif line.startswith("  ") or re.match(r" [*+o-] ", line):
            out.append(line[1:].rstrip())
            flowing = not line.startswith("  ")  # a list item written with one space may go on in the next line
        elif flowing:
            out[-1] += " " + line.strip()
        else:
            out.append(line.strip())
            flowing = True
    text = "\n".join(out).strip("\n")
    return re.sub(r"\n{3,}", "\n\n", text)


def normalised(text):
    """What two copies of a text share when only version numbers, case and layout differ."""
    return " ".join(re.sub(r"\d+", "0", text.lower()).translate(PUNCTUATION).split())


def family_of(source):
    """The source's name without version numbers: gcc-11 and gcc-12 end in the same split."""
    return re.sub(r"[0-9][0-9.]*", "", source).strip("-.+") or source


def make_splits(found):
    """Packages joined with their descriptions, duplicates and unusable texts removed, split, in a fixed random-like order."""
    descriptions = {}
    for path in found["Translations"]:
        for fields in stanzas(read_index(path)):
            if "Description-en" in fields:
                descriptions[fields["Package"], fields.get("Description-md5")] = fields["Description-en"]
    packages = {}
    for path in found["Packages"]:
        for fields in stanzas(read_index(path)):
            source = fields.get("Source", fields["Package"]).split(" ")[0]
            key = (fields["Package"], fields.get("Description-md5"))
            text = descriptions.get(key) or fields.get("Description", "")
            section = fields.get("Section", "").rpartition("/")[2]  # "universe/games"
            packages.setdefault(fields["Package"], (source, text, section))

    dropped = {"no long description": 0, "too short": 0, "same text as another package": 0, "summary is the document": 0}
    pairs, seen = [], set()
    # The package named like its source goes first: it is the one kept among copies.
    for name, (source, text, section) in sorted(packages.items(), key=lambda item: (item[1][0], item[0] != item[1][0], item[0])):
        synopsis, _, long = text.partition("\n")
        summary, document = " ".join(synopsis.split()), unfold(long.split("\n")) if long else ""
        if not document:
            dropped["no long description"] += 1
            continue
        if len(document.split()) < MIN_DOCUMENT_WORDS or len(summary.split()) < MIN_SUMMARY_WORDS:
            dropped["too short"] += 1
            continue
        key = normalised(document)
        if key == normalised(summary):
            dropped["summary is the document"] += 1
            continue
        if key in seen:
            dropped["same text as another package"] += 1
            continue
        seen.add(key)
        pairs.append({"id": name, "document": document, "summary": summary, "source": source, "section": section})
    pairs.sort(key=lambda pair: hash_of(pair["id"]))
    splits = {split: [] for split in SPLITS}
    for pair in pairs:
        splits[split_of(family_of(pair["source"]))].append(pair)
    dropped["held out, but nearly the same as a training text"] = drop_near_duplicates(splits)
    return splits, len(packages), dropped


def shingles(document):
    words = normalised(document).split()
    return {tuple(words[i:i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1))}


def drop_near_duplicates(splits):
    """Removes from val and test what one has practically read in train (families of packages share their wording)."""
    held_out = [(split, pair, shingles(pair["document"])) for split in ("val", "test") for pair in splits[split]]
    where = {}  # shingle -> the held-out documents that have it
    for number, (_, _, parts) in enumerate(held_out):
        for part in parts:
            where.setdefault(part, []).append(number)
    near = set()
    for pair in splits["train"]:
        parts = shingles(pair["document"])
        common = {}
        for part in parts:
            for number in where.get(part, ()):
                common[number] = common.get(number, 0) + 1
        for number, count in common.items():
            if count >= NEAR_DUPLICATE * (len(parts) + len(held_out[number][2]) - count):
                near.add(number)
    for split in ("val", "test"):
        splits[split] = [pair for number, (s, pair, _) in enumerate(held_out) if s == split and number not in near]
    return len(near)
