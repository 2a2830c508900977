// check-plugin notices what it is there to notice.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <gmock/gmock.h>
#include <test_paths.hpp>

#include "core/base/error.hpp"
#include "core/plugins/check/check_plugin.hpp"
#include "core/plugins/check/subject.hpp"

namespace pipeline::plugins {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Tell = std::function<void(const std::string& line)>;

std::filesystem::path zoo(const std::string& name) {
  return std::filesystem::path(PIPELINE_BUILD_DIR "/tests/zoo") / (name + ".so");
}

CheckReport check_zoo(
    const std::string& name, const Tell& tell = [](const std::string&) {}) {
  CheckArgs args;
  args.plugin = zoo(name);
  args.limit = std::chrono::seconds(name == "hangs" ? 1 : 60);
  return check_plugin(args, tell);
}

// The detail of the only check that failed, or of the first.
std::string failure(const CheckReport& report, const std::string& name) {
  for (const Check& check : report.checks)
    if (check.outcome == Outcome::kFailed && check.name == name) return check.detail;
  return "none in: " + report.text;
}

TEST(CheckPlugin, NoticesASymbolTooMany) {
  EXPECT_THAT(failure(check_zoo("leaks_symbols"), "exports one symbol"),
              HasSubstr("must export pl_plugin_entry alone"));
}

TEST(CheckPlugin, NoticesOutput) {
  EXPECT_EQ(failure(check_zoo("prints"), "loads, and its tables and options are in order"),
            "wrote to stdout or stderr, which are the host's: \"hello from the plugin\"");
}

TEST(CheckPlugin, SurvivesHangsAndCrashes) {
  const std::string loads = "loads, and its tables and options are in order";
  EXPECT_EQ(failure(check_zoo("hangs"), loads), "did not finish within 1 seconds");
  EXPECT_EQ(failure(check_zoo("crashes"), loads), "ended by signal 6 (Aborted)");
  EXPECT_EQ(failure(check_zoo("exits"), loads), "ended the process with exit code 3");
  EXPECT_THAT(failure(check_zoo("throws"), loads), HasSubstr("out of patience"));
}

TEST(CheckPlugin, StopsWhereNothingLoads) {
  const CheckReport report = check_zoo("not_elf");
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.checks.size(), 1u);
  EXPECT_THAT(report.text, HasSubstr("FAIL loads, and its tables and options are in order: "));
  EXPECT_THAT(report.text, HasSubstr("1 of 1 checks failed"));
}

TEST(CheckPlugin, NoticesATaskThatCannotOpen) {
  const CheckReport report = check_zoo("good");
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(failure(report, "prepares and opens; its parameters are in order"),
            "task good: the zoo has no data");
}

// The zoo's task has no data, which shows as soon as the option is given.
TEST(CheckPlugin, SaysHowToRunWhatNeedsAnOption) {
  const CheckReport report = check_zoo("needs_option");
  EXPECT_TRUE(report.passed()) << report.text;
  const auto skipped = std::ranges::count(report.checks, Outcome::kSkipped, &Check::outcome);
  EXPECT_GT(skipped, 5);
  const std::string count = std::to_string(skipped);
  EXPECT_TRUE(report.text.ends_with(", " + count + " skipped; to run the " + count +
                                    " that need options, add --config FILE.toml or --set KEY=VALUE\n"))
      << report.text;
  CheckArgs args;
  args.plugin = zoo("needs_option");
  args.sets = {"task.size=3"};
  const CheckReport given = check_plugin(args);
  EXPECT_EQ(failure(given, "prepares and opens; its parameters are in order"),
            "task needs_option: the zoo has no data");
  EXPECT_THAT(given.text, testing::Not(HasSubstr("an option is required")));
}

TEST(CheckPlugin, NoticesAnExceptionThatLeavesDestroy) {
  EXPECT_EQ(failure(check_zoo("slots_throw"), "is created and destroyed, twice"),
            "logged an error: task slots_throw: a C++ exception left its slot 'destroy', which the ABI "
            "forbids: out of patience in destroy");
}

TEST(CheckPlugin, NoticesWrongRowsOfAPrediction) {
  const std::string rows = "a prediction has one row for each sample";
  EXPECT_EQ(failure(check_zoo("rows_twice"), rows),
            "task rows_twice: predict gave sample 0 more than one row, must give each of the 3 samples of "
            "its batch one");
  EXPECT_THAT(check_zoo("rows_right").text, HasSubstr("  ok   " + rows + "\n"));
}

TEST(CheckPlugin, NoticesWhatGoesWrongInBf16) {
  const std::string bf16 = "training works in bf16, too";
  EXPECT_EQ(failure(check_zoo("narrow_nan"), bf16), "loss or gradients are not finite at the first step");
  EXPECT_EQ(failure(check_zoo("narrow_far"), bf16), "the loss is 1.5 in bf16 and 1 in float32");
  EXPECT_THAT(check_zoo("rows_right").text, HasSubstr("  ok   " + bf16 + "\n"));
  EXPECT_THAT(failure(check_zoo("frozen_far"), "frozen weights in bf16 give what the same give in float32"),
              HasSubstr("differ from those with the same weights in float32 by 0.5, where the largest is 1"));
}

TEST(CheckPlugin, NoticesOutputsThatAreNotThoseOfTraining) {
  const std::string outputs = "outputs for the loss of a step are those of its training";
  EXPECT_THAT(check_zoo("outputs_right").text, HasSubstr("  ok   " + outputs + "\n"));
  EXPECT_THAT(check_zoo("rows_right").text, HasSubstr("  skip " + outputs));
  EXPECT_THAT(
      failure(check_zoo("outputs_nowhere"), outputs),
      HasSubstr("gave (2, -1) of float32 on device 1:0 as room for the outputs of 2 samples: expected "
                "(2, K), K > 0"));
  EXPECT_EQ(failure(check_zoo("outputs_new"), outputs),
            "the same batch and seed gave other outputs the second time");
  EXPECT_THAT(
      failure(check_zoo("outputs_else"), outputs),
      HasSubstr("gives another loss or other gradients with its outputs than without: they differ by 1"));
}

TEST(CheckPlugin, NoticesWhatAnUpdateRuleMayNotDo) {
  const std::string cut = "an update does not depend on how weights are cut",
                    changes = "an update changes weights", scale = "a rule that takes the scale heeds it",
                    matrix = "a transformed matrix is finite and the same each time";
  EXPECT_TRUE(check_zoo("rule_right").passed());
  EXPECT_THAT(check_zoo("rule_scaled").text, HasSubstr("  ok   " + scale + "\n"));
  EXPECT_THAT(check_zoo("rule_of_matrices").text, HasSubstr("  ok   " + matrix + "\n"));
  EXPECT_EQ(failure(check_zoo("rule_of_value"), changes),
            "optimizer rule_of_value: info: its state 'value': must be made of a-z, 0-9 and _, occur once, "
            "and be neither value, ema nor step");
  EXPECT_EQ(failure(check_zoo("rule_of_length"), cut),
            "an update in three runs gives other bits than in one: it may not depend on where a run ends");
  EXPECT_EQ(failure(check_zoo("rule_throws"), changes), "optimizer rule_throws: nothing works today");
  EXPECT_EQ(failure(check_zoo("rule_of_infinity"), scale),
            "an update with found_inf = 1 changes weights or state");
  EXPECT_EQ(failure(check_zoo("rule_unscaled"), scale),
            "an update with 4 times the gradients and divisor = 4 gives other bits than with neither");
  EXPECT_EQ(failure(check_zoo("rule_infinite"), matrix), "transform makes values that are not finite");
}

TEST(CheckPlugin, NoticesReportsThatNeedDataOrLoseFiles) {
  const std::string report = "a report is a function of the evaluation's values";
  EXPECT_EQ(failure(check_zoo("report_of_data"), report),
            "the same values gave another report before open: it must use the values and the options alone");
  EXPECT_EQ(
      failure(check_zoo("report_sums"), report),
      "task report_sums: report gave a file the name 'sums.json', which is the host's own: must be another");
  EXPECT_THAT(check_zoo("rows_right").text, HasSubstr("  ok   " + report + "\n"));
}

// The last check of a library leaves a file behind; when the first one is told, it is not there yet.
TEST(CheckPlugin, TellsEachCheckAsItFinishes) {
  const std::filesystem::path mark =
      std::filesystem::path(::testing::TempDir()) / ("told-" + std::to_string(::getpid()));
  ::setenv("ZOO_SHUTDOWN_FILE", mark.c_str(), 1);
  std::string told;
  const CheckReport report = check_zoo("good", [&](const std::string& line) {
    if (line.starts_with("  ok   exports one symbol")) {
      EXPECT_FALSE(std::filesystem::exists(mark));
    }
    told += line + "\n";
  });
  EXPECT_TRUE(std::filesystem::remove(mark));
  ::unsetenv("ZOO_SHUTDOWN_FILE");
  EXPECT_EQ(told, report.text);
  EXPECT_THAT(told, HasSubstr("\n  ok   exports one symbol\n"));
}

TEST(Elf, ListsWhatIsExported) {
  const std::filesystem::path zoo = PIPELINE_BUILD_DIR "/tests/zoo";
  EXPECT_EQ(exported_symbols(zoo / "good.so"), std::vector<std::string>{"pl_plugin_entry"});
  EXPECT_GT(exported_symbols(zoo / "leaks_symbols.so").size(), 1u);
  EXPECT_THROW(exported_symbols(zoo / "not_elf.so"), Error);
  EXPECT_THROW(exported_symbols(zoo / "empty.so"), Error);
}

// Every plugin of the product keeps the promises of pipeline.h, and so do the frozen ones, those in C that
// `pipeline new` copies, and the fake backend. configs/NAME.toml configures a plugin that needs options.

std::vector<fs::path> built_plugins() {
  const fs::path build(PIPELINE_BUILD_DIR), tests = build / "tests/plugins";
  std::vector<fs::path> found{tests / "tasks/linear_regression.so", tests / "strategies/plain_sgd.so",
                              tests / "backends/fake.so", tests / "optimizers/sign_sgd.so"};
  for (const char* on_torch : {"optimizers/signum.so", "tasks/pairs.so"})
    if (fs::exists(tests / on_torch)) found.push_back(tests / on_torch);
  for (const char* root : {"lib/pipeline/plugins", "tests/frozen_plugins"}) {
    for (const char* kind : {"tasks", "strategies", "backends"}) {
      const fs::path folder = build / root / kind;
      if (!fs::is_directory(folder)) continue;
      for (const auto& file : fs::directory_iterator(folder))
        if (file.path().extension() == ".so") found.push_back(file.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string test_name(const fs::path& file) {
  std::string name = fs::relative(file, PIPELINE_BUILD_DIR).replace_extension().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Conformance : public ::testing::TestWithParam<fs::path> {};

TEST_P(Conformance, KeepsItsPromises) {
  CheckArgs args;
  args.plugin = GetParam();
  const fs::path folder = fs::path(PIPELINE_SOURCE_DIR) / "tests/conformance";
  const fs::path config = folder / "configs" / (args.plugin.stem().string() + ".toml");
  if (fs::exists(config)) {
    args.config = config.string();
    fs::current_path(folder);  // relative paths in it start here
  }
  const CheckReport report = check_plugin(args);
  EXPECT_TRUE(report.passed()) << report.text;
  EXPECT_GT(report.checks.size(), 6u) << report.text;
}

INSTANTIATE_TEST_SUITE_P(Built, Conformance, ::testing::ValuesIn(built_plugins()),
                         [](const ::testing::TestParamInfo<fs::path>& tested) {
                           return test_name(tested.param);
                         });

}  // namespace
}  // namespace pipeline::plugins
