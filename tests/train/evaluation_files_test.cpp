#include "core/train/results/evaluation_files.hpp"
#include "core/train/results/evaluation.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr const char* kRemedy = "choose another run.dir";

Evaluation evaluation_with(std::vector<ReportFile> files, double sum = 1) {
  Evaluation evaluation;
  evaluation.sums = {{"", "loss", sum, 2}};
  evaluation.files = std::move(files);
  evaluation.samples = evaluation.available = 5;
  return evaluation;
}

class KeptFiles : public testing::Test {
 protected:
  void write(const std::string& figures, const Evaluation& evaluation) const {
    EvaluationFiles(output_, kRemedy).write(figures, evaluation);
  }
  std::string problem() const {
    return tests::message_of<Error>([&] { EvaluationFiles(output_, kRemedy); });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    if (fs::exists(folder_ / "x-files"))
      for (const auto& entry : fs::directory_iterator(folder_ / "x-files"))
        names.push_back("x-files/" + entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  double kept_sum() const { return read_sums(folder_ / "x-files/sums.json", "").sums.at(0).sum; }

  tests::FilesFolder folder_;
  const std::string output_ = folder_ / "x.json";
};

TEST_F(KeptFiles, OfAnEarlierEvaluationAreGone) {
  write("old", evaluation_with({{"a.csv", "1"}, {"b.csv", "2"}}, 1));
  EXPECT_THAT(names(),
              ElementsAre("x-files", "x-files/a.csv", "x-files/b.csv", "x-files/sums.json", "x.json"));
  write("new", evaluation_with({{"c.csv", "3"}}, 7));
  EXPECT_THAT(names(), ElementsAre("x-files", "x-files/c.csv", "x-files/sums.json", "x.json"));
  EXPECT_EQ(tests::read_all(output_), "new");
  EXPECT_EQ(kept_sum(), 7);
}

TEST_F(KeptFiles, OfOneThatWasKilledAreNoPartOfTheNext) {
  fs::create_directory(folder_ / "x-files.tmp");
  folder_.write("x-files.tmp/half.csv", "ha");
  write("new", evaluation_with({}));
  EXPECT_THAT(names(), ElementsAre("x-files", "x-files/sums.json", "x.json"));
}

TEST_F(KeptFiles, StayWhereTheNextOnesCannotBeWritten) {
  write("old", evaluation_with({{"a.csv", "1"}}, 1));
  const std::string name(300, 'n');  // longer than file systems take
  EXPECT_EQ(tests::message_of<Error>([&] {
              write("new", evaluation_with({{"b.csv", "2"}, {name, "3"}}, 7));
            }),
            folder_ / "x-files.tmp/" + name + ": cannot be written: File name too long");
  EXPECT_EQ(tests::read_all(output_), "old");
  EXPECT_EQ(kept_sum(), 1);
  write("new", evaluation_with({}));
  EXPECT_THAT(names(), ElementsAre("x-files", "x-files/sums.json", "x.json"));
}

TEST_F(KeptFiles, AreNotPutWhereOtherPeoplesFilesAre) {
  fs::create_directory(folder_ / "x-files");
  const std::string thesis = folder_.write("x-files/thesis.tex", "years of work");
  const std::string expected = thesis +
                               ": is not of the evaluation that is kept in this folder, which the next one "
                               "replaces: move it away, or choose another run.dir";
  EXPECT_EQ(problem(), expected);
  fs::remove(thesis);
  write("old", evaluation_with({{"a.csv", "1"}}));
  EXPECT_EQ(problem(), "(nothing was thrown)");
  folder_.write("x-files/thesis.tex", "years of work");
  EXPECT_EQ(problem(), expected);
  EXPECT_EQ(tests::read_all(thesis), "years of work");
}

class KeptSums : public testing::Test {
 protected:
  static Evaluation some() {
    Evaluation some;
    some.split = PL_SPLIT_VAL;
    some.samples = 3;
    some.available = 5;
    some.metrics = {{.name = "perplexity",
                     .source = "loss",
                     .help = {},
                     .aggregate = PL_AGGREGATE_EXP_MEAN,
                     .better = PL_BETTER_HIGHER}};
    some.sums = {{"", "loss", 0.1, 1.0 / 3}, {"a", "loss", 5e-324, 1e300}};
    some.files = {{"table.csv", "1"}};
    return some;
  }
  Evaluation read(const std::string& text) const {
    return read_sums(folder_.write("sums.json", text), "make it again");
  }
  std::string problem_with(const std::string& text) const {
    return tests::message_of<Error>([&] { read(text); });
  }

  tests::FilesFolder folder_;
};

TEST_F(KeptSums, ComeBackToTheBit) {
  const Evaluation sums = read(sums_text(some()));
  EXPECT_EQ(sums.split, PL_SPLIT_VAL);
  EXPECT_EQ(sums.samples, 3u);
  EXPECT_EQ(sums.available, 5u);
  ASSERT_EQ(sums.metrics.size(), 1u);
  EXPECT_EQ(sums.metrics[0].name, "perplexity");
  EXPECT_EQ(sums.metrics[0].source, "loss");
  EXPECT_EQ(sums.metrics[0].aggregate, PL_AGGREGATE_EXP_MEAN);
  EXPECT_EQ(sums.metrics[0].better, PL_BETTER_HIGHER);
  ASSERT_EQ(sums.sums.size(), 2u);
  EXPECT_EQ(sums.sums[0].sum, 0.1);
  EXPECT_EQ(sums.sums[0].weight, 1.0 / 3);
  EXPECT_EQ(sums.sums[1].group, "a");
  EXPECT_EQ(sums.sums[1].sum, 5e-324);
  ASSERT_EQ(sums.files.size(), 1u);
  EXPECT_EQ(sums.files[0].name, "table.csv");
}

TEST_F(KeptSums, WhatIsNotFiniteComesBackToo) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInfinity = std::numeric_limits<double>::infinity();
  Evaluation sums = some();
  sums.sums = {{"", "a", kNan, 1}, {"", "b", kInfinity, 1}, {"", "c", -kInfinity, kNan}};
  const Evaluation back = read(sums_text(sums));
  EXPECT_TRUE(std::isnan(back.sums[0].sum));
  EXPECT_EQ(back.sums[1].sum, kInfinity);
  EXPECT_EQ(back.sums[2].sum, -kInfinity);
  EXPECT_TRUE(std::isnan(back.sums[2].weight));
}

// No byte of the file may be left out or say something else.
TEST_F(KeptSums, DamageIsRefused) {
  Evaluation sums = some();
  sums.sums[1].sum = 2;  // the smallest number there is has many spellings
  const std::string whole = sums_text(sums),
                    end = "sums.json: is not what the evaluation wrote: make it again";
  for (const std::string text : {"[1]", "{}", "null", "7"})
    EXPECT_THAT(problem_with(text), testing::EndsWith(end)) << text;
  EXPECT_THAT(problem_with(""), testing::HasSubstr("sums.json: not valid JSON"));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = damaged[i] == '7' ? '8' : '7';
    EXPECT_THAT(problem_with(damaged), testing::EndsWith(": make it again")) << damaged;
    EXPECT_THAT(problem_with(whole.substr(0, i)), testing::HasSubstr("not valid JSON")) << i;
  }
}

TEST_F(KeptSums, AFileThatIsGoneIsNamedWithTheRemedy) {
  EXPECT_EQ(tests::message_of<Error>([&] { read_sums(folder_ / "gone.json", "make it again"); }),
            folder_ / "gone.json: cannot be read: No such file or directory: make it again");
}

TEST_F(KeptSums, NamesThatAreNotUtf8AreRefused) {
  Evaluation sums = some();
  sums.sums[0].name = "\xff";
  EXPECT_THAT(tests::message_of<Error>([&] { sums_text(sums); }), testing::HasSubstr("must be UTF-8"));
}

}  // namespace
}  // namespace pipeline::train
