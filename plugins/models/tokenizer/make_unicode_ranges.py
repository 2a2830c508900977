"""Prints unicode_ranges.inc: the letters and numbers of Unicode 16.0.0, the version that the Hugging Face and the
OpenAI tokenizers classify characters by.

Use: pip install unicodedata2==16.0.0 && python make_unicode_ranges.py > unicode_ranges.inc
"""

import unicodedata2


def ranges(category):
    """Runs [first, last] of code points whose general category begins with the letter `category`."""
    runs = []
    for code_point in range(0x110000):
        if unicodedata2.category(chr(code_point))[0] != category:
            continue
        if runs and runs[-1][1] == code_point - 1:
            runs[-1][1] = code_point
        else:
            runs.append([code_point, code_point])
    return runs


def main():
    assert unicodedata2.unidata_version == "16.0.0", unicodedata2.unidata_version
    print(f"// Made by make_unicode_ranges.py from Unicode {unicodedata2.unidata_version}: first and last code point of each run.")
    for name, category in (("kLetters", "L"), ("kNumbers", "N")):
        runs = ranges(category)
        print(f"constexpr CodePointRange {name}[{len(runs)}] = {{")
        line = "   "
        for first, last in runs:
            item = f" {{{first:#x}, {last:#x}}},"
            if len(line) + len(item) > 110:
                print(line)
                line = "   "
            line += item
        print(line + "\n};")


if __name__ == "__main__":
    main()
