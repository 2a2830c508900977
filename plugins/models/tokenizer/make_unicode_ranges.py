"""Prints tables of characters.

unicode_ranges.inc: the letters and numbers of Unicode 16.0.0, the version that the Hugging Face and the OpenAI tokenizers classify
characters by.

    pip install unicodedata2==16.0.0 && python make_unicode_ranges.py > unicode_ranges.inc

bert_ranges.inc: what BertNormalizer and BertPreTokenizer of Hugging Face's tokenizers make of each character, by asking them; they
have an older Unicode for it.

    pip install tokenizers && python make_unicode_ranges.py bert > bert_ranges.inc
"""

import sys


def ranges(is_wanted):
    """Runs [first, last] of the code points that are wanted."""
    runs = []
    for code_point in range(0x110000):
        if 0xD800 <= code_point < 0xE000 or not is_wanted(chr(code_point)):
            continue
        if runs and runs[-1][1] == code_point - 1:
            runs[-1][1] = code_point
        else:
            runs.append([code_point, code_point])
    return runs


def print_table(name, runs):
    print(f"constexpr CodePointRange {name}[{len(runs)}] = {{")
    line = "   "
    for first, last in runs:
        item = f" {{{first:#x}, {last:#x}}},"
        if len(line) + len(item) > 110:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


def print_unicode():
    import unicodedata2

    assert unicodedata2.unidata_version == "16.0.0", unicodedata2.unidata_version
    print(f"// Made by make_unicode_ranges.py from Unicode {unicodedata2.unidata_version}: first and last code point of each run.")
    for name, category in (("kLetters", "L"), ("kNumbers", "N")):
        print_table(name, ranges(lambda c: unicodedata2.category(c)[0] == category))


def print_bert():
    import tokenizers
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    def step(**on):
        parts = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False, **on}
        return BertNormalizer(**parts).normalize_str

    clean, part, strip, words = step(clean_text=True), step(handle_chinese_chars=True), step(strip_accents=True), BertPreTokenizer()
    print(f"// Made by make_unicode_ranges.py from tokenizers {tokenizers.__version__}: first and last code point of each run.")
    print_table("kRemoved", ranges(lambda c: clean(c) == ""))
    print_table("kIdeographs", ranges(lambda c: part(c) == f" {c} "))
    print_table("kMarks", ranges(lambda c: strip(c) == ""))
    print_table("kPunctuation", ranges(lambda c: len(words.pre_tokenize_str(f"a{c}a")) == 3))


if __name__ == "__main__":
    print_bert() if sys.argv[1:] == ["bert"] else print_unicode()
