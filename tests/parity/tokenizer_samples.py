"""Texts for the tokenizer's fixtures and for its live comparison."""
import random

# What tokenizers get wrong: white space of all kinds, contractions, runs that change class, characters of several code
# points, the edges of Unicode.
AWKWARD = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n", "\n ", " \n ", "a ", " a", "  a", "a  b", "a   b", "a\nb", "a \nb",
    "a\n b", "a\n\n  b", "a\t\tb", "\u00a0", "a\u00a0b", "a \u00a0b", "a\u00a0 b", "a\u00a0\u00a0b", "\u3000a", "a\u3000\u3000 b",
    "\u0085a\u0085\u0085b", "\u2028\u2029x", "a\u200bb", "a\u180eb", "\x1c\x1d\x1e\x1fx", "\x0b\x0cx", "\x00", "a\x00b", "\x7f",
    "\ufeffx", "Hello world", " Hello world", "Hello, world!", "don't I'll we've they're it's I'm he'd", "DON'T I'LL WE'VE IT'S",
    "'s't're've'm'll'd", " 's", "''s", "x'", "'", "' s", "'l", "'r", "'v", "'re", "'rex", "can\u2019t", "12345", "1 23  456", "3.14",
    "a1b2", "1a 2b", "x_y", "...", "!!!???", "a!b", "a! b", "! a", " !a", "  !a", "$100 #1 @you 50%", "C++ && C#", "<|endoftext|>",
    "x<|endoftext|>y", "<|endoftext|", "e\u0301", "\u0301", " \u0301a", "a\u0301\u0302b", "\u0915\u094d\u0937\u093f", "Ünïcödé Straße",
    "ﬁ ﬂ", "ß", "İstanbul ılık", "Здравствуй, мир! Ёж", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم ١٢٣", "नमस्ते दुनिया १२३",
    "สวัสดีชาวโลก", "你好，世界！一二三", "こんにちは世界。カタカナ", "안녕하세요 세계", "Ⅷ ½ ² ① ㊿ 〇", "𝔘𝔫𝔦 𝟙𝟚 𐍈 𓀀", "😀", "😀😀 😀", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "👍🏽",
    "a😀b", "1😀2", "\U0010ffff", "\ue000", "\ufffd\ufffd", "\ufffe", "\u0378", "ªº", "ʰa", "ⅰa", "٣a", "\u06dd", "x" * 24, "x" * 25,
    "x" * 64, "x" * 65, "ab" * 100, " " * 40, " " * 40 + "a", "\n" * 30, "=" * 70, "0" * 70, "\t" * 5 + "return x;", "def f(x):\n    return x\n",
    "https://example.org/a?b=c&d=%20", "The quick brown fox jumps over the lazy dog. " * 3,
]

# A little of many scripts, so that a small vocabulary has merges of all kinds.
TRAINING = [
    "The tokenizer cuts a text into pieces, and each piece into tokens that it has learned from other texts.",
    "It doesn't matter which language the text is in: it's all bytes, and there's a token for each of them.",
    "We've seen that they're merged in order, the most frequent pair first; I'll show what it'd look like.",
    "Frequent words become one token, rare words become several, and the rarest are spelled byte by byte.",
    "for (int i = 0; i < 10; ++i) {\n    total += values[i];\n    count += 1;\n}\n\nreturn total / count;\n",
    "In 2019, 1,000 of 50,257 tokens were numbers: 10, 100, 1000, 2000, 2010, 2019.",
    "Der Text wird in Stücke zerlegt, und jedes Stück in Zeichen, die größer sind als Bytes; schön, für Übung.",
    "Le texte est coupé en morceaux, et chaque morceau en éléments déjà appris à partir d'autres textes.",
    "Текст делится на части, и каждая часть делится на знаки, которые взяты из других текстов.",
    "Το κείμενο κόβεται σε κομμάτια, και κάθε κομμάτι σε σημεία που έχει μάθει από άλλα κείμενα.",
    "文字列は断片に分けられ、それぞれの断片は他の文字列から学んだ単位に分けられます。",
    "文本被切成片段，每个片段再被切成从其他文本中学到的单位。文本的单位是字节。",
    "يقسم النص إلى قطع ثم تقسم كل قطعة إلى وحدات تعلمها من نصوص أخرى.",
    "पाठ को टुकड़ों में काटा जाता है, और हर टुकड़े को इकाइयों में।",
    "텍스트는 조각으로 나뉘고 각 조각은 다른 텍스트에서 배운 단위로 나뉩니다.",
    "😀 😀 😃 👍 👍🏽 ❤️ ... !!! ??? --- === ***",
]

_PARTS = [
    "abcdefghijklmnopqrstuvwxyz", "ETAOINSHRDLU", "0123456789", "     \n\t", ".,;:!?-_()[]{}\"'/\\@#$%^&*+=<>|~`",
    "\u00a0\u0085\u3000\u2003\u2028\u1680\u200b\r\x0b\x1f", "äöüßéèçñøåıİſ", "\u0301\u0308\u0327\u20dd", "абвгдеёжз", "αβγδεζ", "אבגדה",
    "ابتثج١٢٣", "कखगघ्ािी१२", "กขคงา่", "你好世界一二三", "あいうアイウー", "가나다라", "½²①Ⅷ〇", "😀👍🏽\u200d👩🇩🇪", "𝔘𝟙𐍈𓀀",
]
_WORDS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", " the", " of", "ing", "tion", "don't", "  ", "\n\n", "...", "1000", "é", "<|", "|>"]


def random_text(rng):
    """Runs of characters of one part, of several, and of all Unicode, in random order."""
    text = ""
    for _ in range(rng.randrange(1, 12)):
        kind = rng.random()
        if kind < 0.3:
            text += rng.choice(_WORDS)
        elif kind < 0.8:
            part = rng.choice(_PARTS)
            text += "".join(rng.choice(part) for _ in range(rng.randrange(1, 8)))
        elif kind < 0.95:
            text += "".join(rng.choice(rng.choice(_PARTS)) for _ in range(rng.randrange(1, 8)))
        else:
            code_point = rng.randrange(0x110000)
            text += chr(code_point) if not 0xD800 <= code_point < 0xE000 else "\ufffd"
    return text


def random_texts(count, seed):
    rng = random.Random(seed)
    return [random_text(rng) for _ in range(count)]


def random_bytes(count, seed):
    """Texts with damage: bytes changed, cut out, put in. Mostly not UTF-8."""
    rng = random.Random(seed)
    damaged = []
    for text in random_texts(count, seed + 1):
        data = bytearray(text.encode())
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(data) + 1)
            data[at:at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        damaged.append(bytes(data))
    return damaged
