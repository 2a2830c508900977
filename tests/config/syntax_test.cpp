#include "tests/config/config_files.hpp"

namespace pipeline::config {
namespace {

using Syntax = ConfigFiles;

TEST_F(Syntax, AKeyGivenTwiceNamesBothLines) {
  EXPECT_EQ(problems("[train]\nmax_steps = 1\n\nmax_steps = 2\n"),
            "x.toml:4:13: max_steps is given twice (first in line 2): keep one of the two");
  EXPECT_EQ(problems("a = 1\na = 2\n"),
            "x.toml:2:5: a is given twice (first in line 1): keep one of the two");
  EXPECT_EQ(problems("[train]\nlr=1\n[[stage]]\nname = 'a'\n[stage.train]\nlr = 1\nlr = 2\n"),
            "x.toml:7:6: lr is given twice (first in line 6): keep one of the two");
  EXPECT_EQ(problems("train.lr = 1\n[loader]\nx = 1\n[train]\nlr = 1\n"),
            "x.toml:4:1: [train] is given twice (first in line 1): put all its keys under one of the two");
  EXPECT_EQ(problems("[train]\nx = 1\n[loader]\n[ train ]\ny = 1\n"),
            "x.toml:4:1: [train] is given twice (first in line 1): put all its keys under one of the two");
  EXPECT_EQ(problems("[[stage]]\nname = 'a'\n[stage]\n"),
            "x.toml:3:1: [stage] is given twice: put all its keys under one of the two");
  for (const char* header : {"[a.c]", "[[a.c]]"})
    EXPECT_EQ(problems("a = {b = 1}\n" + std::string(header) + "\nx = 1\n"),
              "x.toml:2:1: [a.c]: a is a table in one line, { ... }, to which nothing can be added: write it "
              "as [a] with a line for each key");
  EXPECT_EQ(problems("x = {a = 1, a = 2}\n"), "x.toml:1:17: x is given twice: keep one of the two");
}

TEST_F(Syntax, AnArrayOfTablesIsAListForEachKey) {
  const Config config = load_text(
      "task.plugin = 't'\n[[task.source]]\npath = 'a'\nn = 1\n[[task.source]]\nn = 2\npath = 'b'\n");
  std::map<std::string, std::string> values;
  for (const Row& row : config.rows())
    if (row.key.starts_with("task.source")) values[row.key] = row.value;
  EXPECT_EQ(values["task.source.path"], "[\"a\", \"b\"]");
  EXPECT_EQ(values["task.source.n"], "[1, 2]");
  EXPECT_EQ(problems("[[a.b]]\nx = 1\n[[a.b]]\ny = 1\n"),
            "x.toml:3: [[a.b]] number 2 has y, and lacks x, unlike number 1: all must have the same keys");
  EXPECT_EQ(problems("[[a.b]]\nx = 1\ny = 2\n[[a.b]]\nx = 1\n"),
            "x.toml:4: [[a.b]] number 2 lacks y, unlike number 1: all must have the same keys");
  EXPECT_EQ(problems("[[a.b]]\n[[a.b]]\nx = 1\n"),
            "x.toml:1: [[a.b]] number 1 has no keys: fill it, or leave it out");
}

TEST_F(Syntax, AnArrayOfTablesReplacesTheOneOfTheFileBelow) {
  write("base.toml",
        "task.plugin = 't'\n[[task.source]]\npath = 'a'\nname = 'x'\n[[task.source]]\npath = 'b'\nname = "
        "'y'\n");
  const Config config = load_text("extends = 'base.toml'\n[[task.source]]\npath = 'c'\n");
  std::string all;
  for (const Row& row : config.rows())
    if (row.key.starts_with("task.source")) all += row.key + " = " + row.value + ";";
  EXPECT_EQ(all, "task.source.path = [\"c\"];");
}

TEST_F(Syntax, TextWithoutQuotes) {
  EXPECT_EQ(problems("task.plugin = protein\n"),
            "x.toml:1:15: protein is not a TOML value: text needs quotes: \"protein\"");
  EXPECT_EQ(problems("run.dir = runs/x # here\n"),
            "x.toml:1:11: runs/x is not a TOML value: text needs quotes: \"runs/x\"");
  EXPECT_EQ(
      problems("# größer\n[run]\nname = Grüße\n"),
      "x.toml:3:10: Grüße stands outside of quotes: put text in quotes; keys are made of a-z, 0-9, _ and -");
  EXPECT_EQ(problems("run.reproducible = True\n"),
            "x.toml:1:20: not a TOML value: booleans are true and false in lower case, text needs quotes");
}

TEST_F(Syntax, WhatIsNotClosed) {
  EXPECT_EQ(problems("a = 'x\n"),
            "x.toml:1:7: a string does not end in its line: close it with the quote that it began with");
  EXPECT_EQ(problems("a = \"x\nb = 1\n"),
            "x.toml:1:7: a string does not end in its line: close it with the quote that it began with");
  EXPECT_EQ(problems("a = [1, 2\n"), "x.toml:1:11: the file ends in the middle of an array: close it");
  EXPECT_EQ(problems("a = {b = 1,\nc = 2}\n"),
            "x.toml:1:12: an inline table { ... } must be written in one line: use a [table] header for "
            "longer ones");
}

TEST_F(Syntax, WhatIsMissingOrTooMuch) {
  EXPECT_EQ(problems("a\n"), "x.toml:1:2: a key without a value: write key = value");
  EXPECT_EQ(problems("a : 1\n"), "x.toml:1:3: a key without a value: write key = value");
  EXPECT_EQ(problems("a =\n"), "x.toml:1:4: there is no value after the =: give one, or remove the key");
  EXPECT_EQ(problems("a = [1 2]\n"), "x.toml:1:8: a list's elements need a comma between them");
  EXPECT_EQ(problems("a = 1 b = 2\n"),
            "x.toml:1:7: unexpected text after the value: one key = value in a line, text in quotes");
  EXPECT_EQ(problems("a = 01\n"),
            "x.toml:1:7: leading zeroes are prohibited (in a decimal integer): see toml.io for the syntax");
  for (const char* path : {"C:\\data", "C:\\Users", "C:\\x"})
    EXPECT_NE(
        problems("a = \"" + std::string(path) + "\"\n")
            .find(": a backslash in \"...\" begins an escape sequence: put text with backslashes in '...'"),
        std::string::npos)
        << path;
  EXPECT_EQ(problems("a = 99999999999999999999\n"),
            "x.toml:1:25: '99999999999999999999' is not representable in 64 bits (in a decimal integer): see "
            "toml.io for the syntax");
}

// toml++ 3.3 ends the process here, or worse, if it is let.
TEST_F(Syntax, TableHeadersThatTheParserDoesNotExpect) {
  EXPECT_EQ(problems("a = 1\n[?train]\nx = 1\n"),
            "x.toml:2:1: a line that is not TOML: keys and tables are made of letters, digits, _ and -, or "
            "are in quotes");
  EXPECT_EQ(problems("a = 1\n\n[[=]]"),
            "x.toml:3:1: a line that is not TOML: keys and tables are made of letters, digits, _ and -, or "
            "are in quotes");
  EXPECT_EQ(set_problem("run.name={?=1}"),
            "--set run.name={?=1}: the value is not valid TOML: check its quotes and brackets (a list of "
            "strings is [\"a\", \"b\"])");
}

TEST_F(Syntax, WhatIsNotText) {
  EXPECT_EQ(problems("a = 1\nb = \"\xe9t\xe9\"\n"),
            "x.toml:2:6: not UTF-8 text: save the file in the encoding UTF-8");
  EXPECT_EQ(problems("\xff\xfe[\0t\0"), "x.toml:1:1: not UTF-8 text: save the file in the encoding UTF-8");
  EXPECT_EQ(problems(std::string("a = 1\0", 6)), "x.toml:1:6: a NUL byte: this is not a text file");
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xe0\x80\x80", "\xf4\x90\x80\x80", "\xf0\x80\x80\x80",
                          "\xe2\x82", "\x80"})
    EXPECT_EQ(problems(std::string("# ") + bad),
              "x.toml:1:3: not UTF-8 text: save the file in the encoding UTF-8");
  EXPECT_EQ(load_text("task.plugin = 't'\nrun.name = 'größer 大 🎈'\n").get_string("run.name"), "größer 大 🎈");
}

TEST_F(Syntax, VeryDeepKeysAreRefusedBeforeTheyExhaustTheStack) {
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i) deep += ".a";
  EXPECT_EQ(problems(deep + " = 1\n"), "x.toml:1:66: a key of more than 32 parts: no option is that deep");
  EXPECT_EQ(problems("[" + deep + "]\n"), "x.toml:1:67: a key of more than 32 parts: no option is that deep");
  EXPECT_NE(problems("a = " + std::string(100'000, '[') + "\n"), "");
  std::string nested = "a = ";
  for (int i = 0; i < 10'000; ++i) nested += "[{b.b.b.b = ";
  EXPECT_NE(problems(nested + "\n"), "");
}

// toml++ 3.3 takes some of these for impossible.
TEST_F(Syntax, OtherScriptsBelongInQuotes) {
  for (const char* word : {"é", "Ґ", "、", "\xe2\x80\xa8", "🎈", "\xc2\xa0"}) {
    const std::string w = word;
    EXPECT_EQ(problems("task.plugin = 't'\n" + w + " = 1\n"),
              "x.toml:2:1: " + w +
                  " stands outside of quotes: put text in quotes; keys are made of a-z, 0-9, _ and -");
    EXPECT_EQ(problems("task.plugin = 't' # " + w + "\nrun.name = \"\"\"" + w + "\"\"\"\"\"\nrun.dir = '''" +
                       w + "''''\n"),
              "");
  }
}

TEST_F(Syntax, DotsInStringsAndCommentsAreNotKeys) {
  const std::string dots(200, '.');
  const Config config =
      load_text("# " + dots + "\ntask.plugin = 't' # it's " + dots + "\nrun.name = \"\"\"\n" + dots +
                "\n\\\"" + dots + "\"\"\"\nplugins.paths = ['" + dots + "', \"\\\"" + dots + "\"]\n");
  EXPECT_EQ(config.get_string("run.name"), dots + "\n\"" + dots);
}

}  // namespace
}  // namespace pipeline::config
