#include "core/config/option.hpp"
#include "core/config/sources.hpp"
#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

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

class Values : public ConfigFiles {
 protected:
  // What is wrong with one line below [task] plugin = 't'.
  static std::string problem(const std::string& line) {
    return problems("task.plugin = 't'\n" + line + "\n");
  }
};

TEST_F(Values, OfTheWrongTypeSayWhatToWrite) {
  EXPECT_EQ(problem("train.max_steps = '20'"),
            "x.toml:2: train.max_steps = \"20\": must be an integer: write 20 without quotes");
  EXPECT_EQ(problem("train.max_steps = 1e3"),
            "x.toml:2: train.max_steps = 1000.0: must be an integer: write 1000");
  EXPECT_EQ(problem("train.max_steps = 1.5"),
            "x.toml:2: train.max_steps = 1.5: must be an integer, is a number with a decimal point");
  EXPECT_EQ(problem("train.max_steps = true"),
            "x.toml:2: train.max_steps = true: must be an integer, is a boolean");
  EXPECT_EQ(problem("train.max_steps = 'many'"),
            "x.toml:2: train.max_steps = \"many\": must be an integer, is a string");
  EXPECT_EQ(problem("train.max_steps = [20]"),
            "x.toml:2: train.max_steps = [20]: must be an integer, is a list");
  EXPECT_EQ(problem("train.max_steps = 2024-01-31"),
            "x.toml:2: train.max_steps = 2024-01-31: must be an integer, is a date");
  EXPECT_EQ(problem("train.micro_batch = 'atuo'"),
            "x.toml:2: train.micro_batch = \"atuo\": is neither an integer nor auto: did you mean auto?");
  EXPECT_EQ(problem("train.micro_batch = '4'"),
            "x.toml:2: train.micro_batch = \"4\": must be an integer: write 4 without quotes");
  EXPECT_EQ(problem("optimizer.lr = '3e-4'"),
            "x.toml:2: optimizer.lr = \"3e-4\": must be a number: write 3e-4 without quotes");
  EXPECT_EQ(problem("optimizer.lr = 'small'"),
            "x.toml:2: optimizer.lr = \"small\": must be a number, is a string");
  EXPECT_EQ(problem("optimizer.lr = nan"), "x.toml:2: optimizer.lr = nan: must be a finite number");
  EXPECT_EQ(problem("optimizer.lr = inf"), "x.toml:2: optimizer.lr = inf: must be a finite number");
  EXPECT_EQ(problem("run.reproducible = 1"),
            "x.toml:2: run.reproducible = 1: must be true or false, is an integer");
  EXPECT_EQ(problem("run.reproducible = 'True'"),
            "x.toml:2: run.reproducible = \"True\": must be true or false: write true without quotes");
  EXPECT_EQ(problem("run.name = 3"),
            "x.toml:2: run.name = 3: must be a string, is an integer: put it in quotes");
  EXPECT_EQ(problem("run.dir = '$HOME/x'"),
            "x.toml:2: run.dir = \"$HOME/x\": variables are not replaced here: write the path itself; ~/ is "
            "the home folder");
  EXPECT_EQ(problem("plugins.paths = 'a'"),
            "x.toml:2: plugins.paths = \"a\": must be a list of paths, is a string: write [\"a\"]");
  EXPECT_EQ(problem("plugins.paths = 3"),
            "x.toml:2: plugins.paths = 3: must be a list of paths, is an integer: write it in brackets, with "
            "commas between the elements");
  EXPECT_EQ(
      problem("plugins.paths = ['a', 3]"),
      "x.toml:2: plugins.paths = [\"a\", 3]: element 2 must be a string, is an integer: put it in quotes");
}

TEST_F(Values, OneNameIsAListOfOne) {
  const pl_option names = make_option("targets", PL_OPTION_STRING_LIST, "[]");
  const Checked one = check(names, *parse_value("'all-linear'"));
  ASSERT_TRUE(one.value) << one.problem;
  EXPECT_EQ(std::get<std::vector<std::string>>(*one.value), std::vector<std::string>{"all-linear"});
  EXPECT_FALSE(check(names, *parse_value("3")).value);
}

TEST_F(Values, OutOfRangeSayTheRange) {
  EXPECT_EQ(problem("train.global_batch = 0"),
            "x.toml:2: train.global_batch = 0: out of range: must be at least 1");
  EXPECT_EQ(problem("train.max_seconds = 0"),
            "x.toml:2: train.max_seconds = 0: out of range: must be above 0");
  EXPECT_EQ(problem("loader.workers = 257"),
            "x.toml:2: loader.workers = 257: out of range: must be at least 0 and at most 256");
  EXPECT_EQ(problem("optimizer.beta1 = 1"),
            "x.toml:2: optimizer.beta1 = 1: out of range: must be at least 0 and below 1");
}

TEST_F(Values, OutsideTheChoicesSayTheChoices) {
  EXPECT_EQ(
      problem("train.precision = 'bf17'"),
      "x.toml:2: train.precision = \"bf17\": is not one of auto, fp32, bf16 or fp16: did you mean bf16?");
  EXPECT_EQ(problem("train.precision = 'double'"),
            "x.toml:2: train.precision = \"double\": is not one of auto, fp32, bf16 or fp16");
  EXPECT_EQ(problem("schedule.kind = 'Cosine'"),
            "x.toml:2: schedule.kind = \"Cosine\": is not one of cosine, linear, constant, wsd or "
            "inverse_sqrt: did you mean cosine?");
}

TEST_F(Values, VeryLongOnesAreCutInMessages) {
  const std::string message = problem("train.precision = '" + std::string(500, 'x') + "'");
  EXPECT_EQ(message, "x.toml:2: train.precision = \"" + std::string(79, 'x') +
                         "...: is not one of auto, fp32, bf16 or fp16");
}

TEST_F(Values, TablesWhereValuesBelongAndTheOtherWayRound) {
  EXPECT_EQ(problem("[train.precision]\nx = 1"),
            "x.toml:2: [train.precision]: is a value, not a table: write train.precision = ...");
  EXPECT_EQ(problem("train = 3"),
            "x.toml:2: train = 3: is a table, not a value: write its keys below [train]");
  EXPECT_EQ(problem("strategy = 'ddp'"),
            "x.toml:2: strategy = \"ddp\": is a table, not a value: write strategy.plugin = \"ddp\"");
  EXPECT_EQ(problem("optimizer = 'sgd'"),
            "x.toml:2: optimizer = \"sgd\": is a table, not a value: write optimizer.kind = \"sgd\"");
  EXPECT_EQ(problem("train.max_steps = { x = [1, { y = 2 }] }"),
            "x.toml:2: [train.max_steps]: is a value, not a table: write train.max_steps = ...");
  EXPECT_EQ(problem("run.name = [{ a = 1 }]"),
            "x.toml:2: [run.name]: is a value, not a table: write run.name = ...");
}

// Plugins' tables are checked later, against the plugin; but nobody's keys stand below a value of the core.
TEST_F(Values, NothingStandsBelowAValueInAPluginsTable) {
  EXPECT_EQ(problems("task.plugin = 't'\nstrategy.plugin.tratage = 2\n"),
            "x.toml:2: strategy.plugin.tratage = 2: unknown key: strategy.plugin is a value, not a table");
}

TEST_F(Values, AllProblemsAreReportedAtOnceInTheOrderOfTheFile) {
  EXPECT_EQ(problems("[train]\nmax_stepz = 3\nmax_steps = 0\n[trian]\nx = 1\n[task]\nplugin = "
                     "1\n[loader]\nworkers = -1\n",
                     {"train.max_epochs=0"}),
            "x.toml:2: train.max_stepz = 3: unknown key: did you mean train.max_steps?\n"
            "x.toml:3: train.max_steps = 0: out of range: must be at least 1\n"
            "x.toml:4: [trian]: unknown table: did you mean [train]?\n"
            "x.toml:7: task.plugin = 1: must be a string, is an integer: put it in quotes\n"
            "x.toml:9: loader.workers = -1: out of range: must be at least 0 and at most 256\n"
            "--set train.max_epochs=0: out of range: must be at least 1");
}

}  // namespace
}  // namespace pipeline::config
