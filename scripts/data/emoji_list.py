"""The emojis of Unicode's emoji-test.txt, with the names and keywords that CLDR has for them."""
import re
import xml.etree.ElementTree
from typing import NamedTuple

VARIATION = 0xFE0F  # "as a picture": neither the font nor CLDR has it in its sequences
TONES = {0x1F3FB: "light", 0x1F3FC: "medium-light", 0x1F3FD: "medium", 0x1F3FE: "medium-dark",
         0x1F3FF: "dark"}
ASCII = str.maketrans("’‘“”–", "''\"\"-")

# What the names of one emoji's variants differ in, and the variants that have a word of their own.
PEOPLE = {"man", "men", "woman", "women", "person", "people", "boy", "girl", "child", "old", "older", "and"}
SAME = {"mermaid": "merperson", "merman": "merperson", "princess": "prince", "person with crown": "prince",
        "mrs. claus": "santa claus", "mx claus": "santa claus"}


class Emoji(NamedTuple):
    points: tuple  # code points
    name: str  # "man firefighter: medium skin tone"
    group: str  # "People & Body"
    subgroup: str  # "person-role"
    keywords: tuple

    @property
    def id(self):
        return "-".join(f"{point:x}" for point in self.points)

    @property
    def tone(self):
        """ "light", "light and dark" (two people), or nothing."""
        return " and ".join(dict.fromkeys(TONES[point] for point in self.points if point in TONES))

    @property
    def country(self):
        """What it is the flag of, if it is a country's or a country's part."""
        return self.name.removeprefix("flag: ") if self.subgroup.endswith("-flag") else ""


def family_of(emoji):
    """The emoji that this is a variant of, as a name: what is said of skin tone, hair and family members
    after the colon goes, and so do the words for people, so that a woman firefighter is of the firefighter's
    family, and all who are just people are of one. What follows the colon of a flag or a keycap is the thing
    itself. A name that loses a word for another reason ("old key") can only put two families into one
    split."""
    head, _, rest = emoji.name.lower().partition(": ")
    if head in ("flag", "keycap"):
        return f"{head} {rest}"
    return " ".join(word for word in SAME.get(head, head).split() if word not in PEOPLE) or "person"


def read_annotations(paths):
    """CLDR's {emoji: name} and {emoji: keywords}; the emojis come without variation selectors there."""
    names, keywords = {}, {}
    for path in paths:
        for entry in xml.etree.ElementTree.parse(path).iter("annotation"):
            text = (entry.text or "").translate(ASCII)
            if entry.get("type") == "tts":
                names[entry.get("cp")] = text.strip()
            else:
                keywords[entry.get("cp")] = tuple(word.strip() for word in text.split("|") if word.strip())
    return names, keywords


def read_emojis(test_path, annotation_paths):
    """All fully-qualified emojis, in the file's order; one that is newer than CLDR has no keywords."""
    names, keywords = read_annotations(annotation_paths)
    emojis, heading = [], {}
    with open(test_path, encoding="utf-8") as file:
        for line in file:
            if match := re.match(r"# (group|subgroup): (.*)", line):
                heading[match[1]] = match[2].strip()
            elif match := re.match(r"([0-9A-F ]+?) *; fully-qualified +# \S+ E[0-9.]+ (.*)", line):
                points = tuple(point for code in match[1].split() if (point := int(code, 16)) != VARIATION)
                text = "".join(map(chr, points))
                name = names.get(text) or match[2].strip().translate(ASCII)
                emojis.append(Emoji(points, name, **heading, keywords=keywords.get(text, ())))
    return emojis
