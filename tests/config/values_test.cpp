#include "core/config/document.hpp"
#include "core/config/option.hpp"
#include "tests/config/config_files.hpp"
#include "tests/config/plugin_options.hpp"

namespace pipeline::config {
namespace {

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
