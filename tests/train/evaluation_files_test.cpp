#include "core/train/results/evaluation.hpp"
#include "core/train/results/result_files.hpp"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "core/base/error.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/train/session/value_source.hpp"
#include "core/train/training_step.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Pair;

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

// Where the outputs of a step's samples lie, and which collectives bring them together.

TEST(RowsOfStep, LieInTheOrderOfTheMicroBatches) {
  const std::vector<uint64_t> samples{4, 4, 0, 3};
  const RowsOfStep rows(samples, 6);  // the last two are empty
  EXPECT_EQ(rows.total(), 11u);
  EXPECT_EQ(rows.begin(0), 0u);
  EXPECT_EQ(rows.begin(1), 4u);
  EXPECT_EQ(rows.begin(3), 8u);
  EXPECT_EQ(rows.begin(5), 11u);
}

TEST(RowsOfStep, ABlockOfEachRankTakesOneTurn) {
  const std::vector<uint64_t> samples{2, 2, 2, 2, 1};
  const RowsOfStep rows(samples, 5);
  const auto turns = rows.turns(3, PL_ORDER_BLOCK);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_THAT(turns[0], ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 9)));
  // Four ranks: the last one has none.
  EXPECT_THAT(rows.turns(4, PL_ORDER_BLOCK)[0], ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 9), Pair(9, 9)));
}

TEST(RowsOfStep, RanksThatTakeTurnsTakeOneForEachMicroBatchOfARank) {
  const std::vector<uint64_t> samples{2, 2, 2, 2, 1};
  const RowsOfStep rows(samples, 5);
  EXPECT_THAT(rows.turns(2, PL_ORDER_INTERLEAVED),
              ElementsAre(ElementsAre(Pair(0, 2), Pair(2, 4)), ElementsAre(Pair(4, 6), Pair(6, 8)),
                          ElementsAre(Pair(8, 9), Pair(9, 9))));
}

// What is known of a run by its checkpoint.

class ValuesOfRuns : public testing::Test {
 protected:
  // A run, or a stage of one, that has a checkpoint.
  ValueSource run(const std::string& name, const std::string& options) {
    checkpoint::Manifest manifest;
    manifest.contents.step = 1;
    manifest.contents.config_toml = options;
    const std::string checkpoint = name + "/checkpoints/step-00000001";
    std::filesystem::create_directories(folder_ / checkpoint);
    folder_.write(checkpoint + "/manifest.json", checkpoint::format_manifest(manifest, "test"));
    folder_.write(name + "/config.toml", "started_in = '" + folder_.path() + "'\n");
    return values_of_run({}, folder_ / name);
  }

  tests::FilesFolder folder_;
};

TEST_F(ValuesOfRuns, HaveFollowedWhatTheFirstOneBeganWith) {
  EXPECT_FALSE(has_followed(run("x/first", "[train]\ninit_from = ''\n[stage]\nname = 'first'\n")));
  EXPECT_FALSE(has_followed(run("x/second", "[stage]\nname = 'second'\ninit_from = 'first'\n")));
  EXPECT_FALSE(has_followed(run("x/third", "train.init_from = 'second'\n[stage]\nname = 'third'\n")));
  EXPECT_FALSE(has_followed(run("y", "train.init_from = 'x/third'\n")));
  EXPECT_TRUE(has_followed(run("z", "train.init_from = 'models/gpt2'\n")));
  EXPECT_TRUE(has_followed(run("after", "train.init_from = 'z'\n")));
  EXPECT_TRUE(has_followed(run("parts", "task.language.init_from = 'models/llama'\n")));
  EXPECT_TRUE(has_followed(run("gone", "train.init_from = 'removed'\n")));
}

TEST_F(ValuesOfRuns, OfRunsThatBeganWithEachOtherAreFoundOut) {
  run("a", "train.init_from = 'b'\n");
  EXPECT_TRUE(has_followed(run("b", "train.init_from = 'a'\n")));
}

TEST_F(ValuesOfRuns, NeedNoRunAroundACheckpoint) {
  const std::string whole = run("x", "train.max_steps = 3\n").base;
  std::filesystem::rename(folder_ / "x/checkpoints", folder_ / "x/downloads");
  folder_.write("x/config.toml", "of another program");
  EXPECT_EQ(whole, folder_.path());
  EXPECT_EQ(values_of_run({}, folder_ / "x/downloads").base, "");
}

TEST_F(ValuesOfRuns, AKilledRunGoesOnFromTheCheckpointThatItWasAboutToReplace) {
  run("x", "train.init_from = 'gone'\n");
  std::filesystem::rename(folder_ / "x/checkpoints/step-00000001",
                          folder_ / "x/checkpoints/.old-step-00000001");
  const ValueSource own = values_of_run(folder_ / "x", "gone");
  EXPECT_TRUE(own.goes_on);
  EXPECT_EQ(own.options.at("train.init_from"), "\"gone\"");
}

}  // namespace
}  // namespace pipeline::train
