"""Captions of emojis, and conversations about them."""
import re

from splits import bucket, hash_of

CAPTION_KEYWORDS, ANSWER_KEYWORDS = 5, 3
CAPTION_WORDS = 24
TEXT_ONLY_PERCENT = 4
LATIN_END = "\u0250"  # accented letters are below

QUESTIONS = {
    "name": ("What is this?", "What does the picture show?", "Which emoji is this?", "Name this emoji."),
    "group": ("Which group does it belong to?", "Which group of emojis is this from?",
              "To which group does this emoji belong?"),
    "subgroup": ("Which kind of emoji is this?", "What kind of thing is it?", "Of which kind is this emoji?"),
    "uses": ("What is it used for?", "What would you use this emoji for?", "What can it stand for?"),
    "tone": ("Which skin tone is it?", "What skin tone does it have?", "Which skin tone is shown?"),
    "country": ("Which country's flag is this?", "What is this the flag of?", "Which flag is this?"),
}
TEXT_QUESTIONS = {
    "group": ('Which group does the emoji "{}" belong to?', 'In which group of emojis is "{}"?'),
    "subgroup": ('Which kind of emoji is "{}"?', 'Of which kind is the emoji "{}"?'),
}


def spoken(name):
    """ "flag: Chad" -> "flag of Chad", "keycap: 1" -> "keycap 1", "man: red hair" -> "man, red hair"."""
    return name.replace("flag: ", "flag of ").replace("keycap: ", "keycap ").replace(": ", ", ")


def words_of(text):
    return re.findall(r"[\w'#*]+", text.lower())


def kind_of(emoji):
    """ "food-fruit" -> "food fruit"."""
    return re.sub(r"\W+", " ", emoji.subgroup)


def new_keywords(keywords, said):
    """Those that have a word which neither `said` nor an earlier one has. The few in other scripts than Latin
    (what a button says in Japanese) are left out: the rest of the texts gives no model a chance to learn
    them."""
    words = set(words_of(said))
    for keyword in keywords:
        if max(keyword) < LATIN_END and not words.issuperset(words_of(keyword)):
            words.update(words_of(keyword))
            yield keyword


def caption_of(emoji):
    """Its name, then words that say more of it. Those of its kind ("food", "fruit") come first: many pictures
    share them, so that a small model can learn them, and they hold for a picture whose name it has never
    seen."""
    name = spoken(emoji.name)
    kind = [word for word in kind_of(emoji).split() if len(word) > 2 and word != "other"]
    keywords, words = [], len(name.split())
    for keyword in new_keywords((*kind, *emoji.keywords), name):
        words += len(keyword.split())
        if len(keywords) == CAPTION_KEYWORDS or words > CAPTION_WORDS:
            break
        keywords.append(keyword)
    return f"{name}: {', '.join(keywords)}" if keywords else name


def answers_of(emoji):
    """{kind of question: answer} for the questions that make sense."""
    answers = {"name": spoken(emoji.name), "group": emoji.group, "subgroup": kind_of(emoji)}
    if uses := list(new_keywords(emoji.keywords, emoji.name))[:ANSWER_KEYWORDS]:
        answers["uses"] = ", ".join(uses)
    if emoji.group == "People & Body":
        answers["tone"] = f"{emoji.tone or 'no'} skin tone"
    if emoji.country:
        answers["country"] = emoji.country
    return answers


def turns(identity, questions, answers, name):
    """Question and answer by turns; wording and order hang on the id."""
    conversation = []
    for kind in sorted(set(questions) & set(answers), key=lambda kind: hash_of(f"{identity} order {kind}")):
        wordings = questions[kind]
        question = wordings[bucket(f"{identity} {kind}", len(wordings))].format(name)
        conversation += [{"from": "human", "value": question}, {"from": "gpt", "value": answers[kind]}]
    return conversation


def conversations_of(emoji, image):
    """The one about its picture, and for some a second without a picture."""
    name = spoken(emoji.name)
    conversation = turns(emoji.id, QUESTIONS, answers_of(emoji), name)
    conversation[0]["value"] = "<image>\n" + conversation[0]["value"]
    yield {"id": emoji.id, "image": image, "conversations": conversation}
    if bucket(f"{emoji.id} text", 100) < TEXT_ONLY_PERCENT:
        identity = f"{emoji.id}-text"
        yield {"id": identity, "conversations": turns(identity, TEXT_QUESTIONS, answers_of(emoji), name)}
