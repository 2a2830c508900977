"""The captions, conversations and families of scripts/data/emoji: emoji_texts_test.py SOURCE_FOLDER."""
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, f"{sys.argv.pop()}/scripts/data")
from emoji_font import glyph_of
from emoji_list import Emoji, family_of
from emoji_texts import QUESTIONS, TEXT_QUESTIONS, answers_of, caption_of, conversations_of
from splits import split_of

FIREFIGHTER = Emoji((0x1F468, 0x1F3FD, 0x200D, 0x1F692), "man firefighter: medium skin tone",
                    "People & Body", "person-role", ("firefighter", "firetruck", "man", "medium skin tone"))
CHAD = Emoji((0x1F1F9, 0x1F1E9), "flag: Chad", "Flags", "country-flag", ("flag",))
APPLE = Emoji((0x1F34E,), "red apple", "Food & Drink", "food-fruit",
              ("apple", "fruit", "red", "teacher", "赤"))
KISS = Emoji((0x1F469, 0x1F3FF, 0x200D, 0x1F468, 0x1F3FB),
             "kiss: woman, man, dark skin tone, light skin tone",
             "People & Body", "family", ("couple", "man", "woman"))


def named(name):
    return APPLE._replace(name=name)


class Names(unittest.TestCase):
    def test_what_the_code_points_say(self):
        self.assertEqual(FIREFIGHTER.id, "1f468-1f3fd-200d-1f692")
        tones = [emoji.tone for emoji in (FIREFIGHTER, KISS, APPLE)]
        self.assertEqual(tones, ["medium", "dark and light", ""])

    def test_countries(self):
        self.assertEqual([emoji.country for emoji in (CHAD, APPLE)], ["Chad", ""])
        self.assertEqual(named("rainbow flag")._replace(subgroup="flag").country, "")
        self.assertEqual(named("flag: Wales")._replace(subgroup="subdivision-flag").country, "Wales")

    def test_variants_are_of_one_family(self):
        for family in (
            ("firefighter", "man firefighter", "woman firefighter: dark skin tone"),
            ("person", "man: red hair", "old woman", "child: light skin tone", "woman: dark skin tone, bald"),
            ("men holding hands", "woman and man holding hands", "people holding hands: dark skin tone"),
            ("kiss", "kiss: woman, man", "kiss: man, man, light skin tone, dark skin tone"),
            ("family", "family: man, woman, girl, boy"),
            ("mermaid", "merman: light skin tone", "merperson"),
            ("prince", "princess: dark skin tone", "person with crown"),
            ("Santa Claus", "Mrs. Claus: dark skin tone", "mx claus"),
            ("waving hand", "waving hand: light skin tone"),
        ):
            self.assertEqual(len({family_of(named(name)) for name in family}), 1, family)

    def test_other_emojis_are_not(self):
        names = ("flag: Chad", "flag: Niger", "keycap: 1", "keycap: 2", "firefighter", "person", "snowman",
                 "baby", "family", "kiss", "couple with heart", "waving hand", "raised hand")
        self.assertEqual(len({family_of(named(name)) for name in names}), len(names))

    def test_splits_stay_where_they_are(self):
        self.assertEqual([split_of(f"emoji/{name}") for name in ("golfing", "elf", "cartwheeling")],
                         ["train", "val", "test"])


class Captions(unittest.TestCase):
    def test_name_kind_and_new_keywords(self):
        self.assertEqual(caption_of(FIREFIGHTER),
                         "man firefighter, medium skin tone: person, role, firetruck")
        self.assertEqual(caption_of(CHAD), "flag of Chad: country")
        self.assertEqual(caption_of(APPLE), "red apple: food, fruit, teacher")

    def test_a_name_that_says_it_all(self):
        keycap = Emoji((0x31, 0x20E3), "keycap: 1", "Symbols", "keycap", ("keycap",))
        self.assertEqual(caption_of(keycap), "keycap 1")

    def test_limits(self):
        many = tuple(f"word{number}" for number in range(9))
        self.assertEqual(caption_of(APPLE._replace(keywords=many)),
                         "red apple: food, fruit, word0, word1, word2")
        long = tuple(f"a{number} phrase of some eight words, or nine" for number in range(9))
        self.assertLessEqual(len(caption_of(APPLE._replace(keywords=long)).split()), 24)


class Conversations(unittest.TestCase):
    def test_answers(self):
        self.assertEqual(answers_of(FIREFIGHTER), {
            "name": "man firefighter, medium skin tone", "group": "People & Body", "subgroup": "person role",
            "uses": "firetruck", "tone": "medium skin tone"})
        self.assertEqual(answers_of(CHAD), {
            "name": "flag of Chad", "group": "Flags", "subgroup": "country flag", "country": "Chad"})
        self.assertEqual(answers_of(KISS)["tone"], "dark and light skin tone")
        self.assertEqual(answers_of(KISS._replace(points=(0x1F48F,)))["tone"], "no skin tone")
        self.assertNotIn("tone", answers_of(APPLE))

    def test_turns(self):
        orders, wordings = set(), set()
        for point in range(0x1F300, 0x1F380):
            emoji = APPLE._replace(points=(point,))
            talk = next(conversations_of(emoji, "images/x.png"))
            self.assertEqual(talk, next(conversations_of(emoji, "images/x.png")))
            self.assertEqual((talk["id"], talk["image"]), (emoji.id, "images/x.png"))
            turns = talk["conversations"]
            self.assertEqual([turn["from"] for turn in turns], ["human", "gpt"] * 4)
            self.assertEqual([turn["value"].count("<image>") for turn in turns], [1] + [0] * 7)
            self.assertTrue(turns[0]["value"].startswith("<image>\n"))
            answers = {value: kind for kind, value in answers_of(emoji).items()}
            kinds = tuple(answers[turn["value"]] for turn in turns[1::2])
            for kind, turn in zip(kinds, turns[::2]):
                question = turn["value"].removeprefix("<image>\n")
                self.assertIn(question, QUESTIONS[kind])
                wordings.add(question)
            orders.add(kinds)
        self.assertEqual(len(orders), 24)
        self.assertEqual(len(wordings), sum(len(QUESTIONS[kind]) for kind in answers_of(APPLE)))

    def test_some_have_no_picture(self):
        texts = []
        for point in range(0x1F000, 0x1F400):
            texts += list(conversations_of(APPLE._replace(points=(point,)), "images/x.png"))[1:]
        self.assertTrue(20 < len(texts) < 65, len(texts))
        for talk in texts:
            self.assertEqual(sorted(talk), ["conversations", "id"])
            self.assertTrue(talk["id"].endswith("-text"))
            turns = [turn["value"] for turn in talk["conversations"]]
            self.assertEqual(sorted(turns[1::2]), ["Food & Drink", "food fruit"])
            wordings = sum(TEXT_QUESTIONS.values(), ())
            self.assertLessEqual(set(turns[::2]), {wording.format("red apple") for wording in wordings})


class Glyphs(unittest.TestCase):
    def test_a_character_or_the_ligature_of_the_whole_sequence(self):
        characters = {0x1F468: "man", 0x200D: "joiner", 0x1F692: "engine"}
        ligatures = {"man": [(["joiner"], "wrong"), (["joiner", "engine"], "firefighter")]}
        for points, glyph in (((0x1F468,), "man"), ((0x1F468, 0x200D, 0x1F692), "firefighter"),
                              ((0x1F34E,), None), ((0x1F468, 0x200D, 0x1F34E), None),
                              ((0x1F692, 0x200D), None)):
            self.assertEqual(glyph_of(points, characters, ligatures), glyph, points)


unittest.main()
