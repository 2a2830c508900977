#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/report/comparison.hpp"
#include "core/report/sweep.hpp"
#include "tests/report/run_folder.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Sweeps : public testing::Test {
 protected:
  // A point with a run for each best loss.
  SweptPoint point(const std::string& value, const std::vector<double>& losses,
                   std::optional<uint64_t> stopped_at = std::nullopt, const char* better = "lower") {
    SweptPoint made{.values = {value}, .runs = {}, .stopped_at = stopped_at};
    for (const double loss : losses) {
      const std::string name = fmt::format("{}-{}", value, made.runs.size());
      std::filesystem::create_directories(folder_ / name);
      folder_.write(name + "/finished.txt", "");
      folder_.write(name + "/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
      folder_.write(
          name + "/eval.jsonl",
          fmt::format("{{\"step\":10,\"loss\":{}}}\n{{\"step\":20,\"loss\":{}}}\n", loss + 1, loss));
      folder_.write(
          name + "/summary.json",
          fmt::format(R"({{"best":{{"metric":"loss","value":{},"step":20,"better":"{}"}}}})", loss, better));
      made.runs.push_back({.name = name, .folder = folder_ / name});
    }
    return made;
  }
  static std::vector<std::string> order(const Ranking& ranking) {
    std::vector<std::string> values;
    for (const RankedPoint& one : ranking.points) values.push_back(one.point->values[0]);
    return values;
  }

  tests::FilesFolder folder_;
};

TEST_F(Sweeps, AreRankedByTheirMeans) {
  const Sweep sweep{
      {"optimizer.lr"}, "loss", {point("a", {2, 4}), point("b", {1, 3}), point("c", {2.5, 2.5})}};
  const Ranking ranking = rank(sweep);
  EXPECT_THAT(order(ranking), ElementsAre("b", "c", "a"));
  EXPECT_DOUBLE_EQ(ranking.points[0].best.deviation, std::sqrt(2.0));
  EXPECT_THAT(table(sweep, ranking), testing::ContainsRegex("b +2 +2 ± 1.4 +finished +.*b-0\n"));
}

TEST_F(Sweeps, WhereMoreIsBetterTheLargestIsFirst) {
  const Sweep sweep{{"k"}, "loss", {point("a", {1}, {}, "higher"), point("b", {2}, {}, "higher")}};
  EXPECT_TRUE(higher_is_better(sweep));
  EXPECT_THAT(order(rank(sweep)), ElementsAre("b", "a"));
}

TEST_F(Sweeps, ADifferenceThatSeedsMakeIsNoGain) {
  const Sweep sweep{{"k"}, "loss", {point("a", {1.0, 1.2}), point("b", {1.1, 1.2}), point("c", {9, 9.1})}};
  const Ranking ranking = rank(sweep);
  EXPECT_TRUE(ranking.points[1].is_near);
  EXPECT_FALSE(ranking.points[2].is_near);
  EXPECT_EQ(ranking.verdict, "Best: k = a, with loss 1.1 ± 0.14. As good, as far as seeds tell: k = b.");
  const Sweep single{{"k"}, "loss", {point("d", {1}), point("e", {1.001})}};
  EXPECT_THAT(rank(single).verdict, HasSubstr("One seed each: what chance does is not known"));
}

// A point that was left behind may have been better at that moment than it would be in the end.
TEST_F(Sweeps, WhatCameFurtherIsFirst) {
  const Sweep sweep{
      {"k"}, "loss", {point("a", {1}, 10), point("b", {2}), point("c", {3}, 20), point("d", {}, 10)}};
  const Ranking ranking = rank(sweep);
  EXPECT_THAT(order(ranking), ElementsAre("b", "c", "a", "d"));
  EXPECT_EQ(ranking.points[1].state, "left at step 20");
}

TEST_F(Sweeps, APointIsJudgedByItsLastEvaluationBeforeAStep) {
  const SweptPoint one = point("a", {2, 4});
  EXPECT_EQ(score_at(one, "loss", 10).mean, 4);
  EXPECT_EQ(score_at(one, "loss", 19).mean, 4);
  EXPECT_EQ(score_at(one, "loss", 20).mean, 3);
  EXPECT_EQ(score_at(one, "loss", 9).runs, 0U);
  EXPECT_EQ(score_at(one, "f1", 20).runs, 0U);
}

TEST_F(Sweeps, AFailedRunCountsForNothing) {
  SweptPoint failed = point("a", {1});
  failed.runs[0].problem = "exited with code 2";
  const Ranking ranking = rank({{"k"}, "loss", {failed, point("b", {2})}});
  EXPECT_EQ(ranking.points[1].state, "a-0: exited with code 2");
  EXPECT_EQ(ranking.points[1].best.runs, 0U);
  folder_.write("a-0/diverged.txt", "");
  std::filesystem::remove(folder_ / "a-0/finished.txt");
  EXPECT_EQ(rank({{"k"}, "loss", {failed}}).points[0].state, "a-0 has diverged");
}

// Chance decides which of the seeds survives.
TEST_F(Sweeps, AChoiceOfWhichSomeRunsHaveFailedRanksBehindTheOthers) {
  SweptPoint failed = point("a", {1, 1});
  failed.runs[1].problem = "exited with code 2";
  const Sweep sweep{{"k"}, "loss", {failed, point("b", {2, 2.1})}};
  EXPECT_THAT(order(rank(sweep)), ElementsAre("b", "a"));
}

RunRecord with_best(const std::string& name, const std::vector<double>& losses, const std::string& options,
                    double best) {
  RunRecord run = tests::record_of(name, losses, 1, 1, options);
  run.summary["best"] = {{"metric", "loss"}, {"value", best}, {"step", 2}, {"better", "lower"}};
  return run;
}

TEST(RunsOfOtherOptions, ThatWereNotEvaluatedComeBehindThoseThatWere) {
  const std::string lr = "[optimizer]\nlr = ";
  const Comparison comparison = compare(
      {tests::record_of("a", {2, 0.1}, 1, 1, lr + "0.1\n"), with_best("b", {2, 0.5}, lr + "0.2\n", 0.7)}, 0);
  EXPECT_EQ(conclusion(comparison, /*is_brief=*/true), "Best: b (loss 0.7 at step 2).");
}

// Two learning rates are two runs, and neither is wrong.
TEST(RunsOfOtherOptions, AreRankedAndNotCalledDifferent) {
  const std::string lr = "[optimizer]\nlr = ";
  const Comparison comparison =
      compare({with_best("a", {2, 1}, lr + "0.1\n", 1.5), with_best("b", {2, 0.5}, lr + "0.2\n", 0.7)}, 0);
  EXPECT_TRUE(comparison.all_same());
  EXPECT_EQ(comparison.verdict(1), "another run: optimizer.lr");
  EXPECT_EQ(conclusion(comparison), "Best first: b (loss 0.7 at step 2), a (loss 1.5 at step 2).");
  EXPECT_THAT(table(comparison), testing::ContainsRegex("b +2 +0.5 +loss 0.7 at step 2 "));
}

TEST(RunsOfOtherOptions, OfTheMachineAreComparedAsBefore) {
  const Comparison comparison = compare({with_best("a", {2, 1}, "[strategy]\nplugin = \"single\"\n", 1),
                                         with_best("b", {2, 3}, "[strategy]\nplugin = \"ddp\"\n", 1)},
                                        0);
  EXPECT_FALSE(comparison.all_same());
  EXPECT_THAT(conclusion(comparison), HasSubstr("NOT the same"));
}

TEST(RunsOfOtherOptions, WithoutEvaluationsAreRankedByTheirLosses) {
  const std::string seed = "[run]\nseed = ";
  const Comparison comparison = compare(
      {tests::record_of("a", {2, NAN}, 1, 1, seed + "1\n"), tests::record_of("b", {2, 3}, 1, 1, seed + "2\n"),
       tests::record_of("c", {2, 1}, 1, 1, seed + "3\n")},
      0);
  EXPECT_THAT(conclusion(comparison),
              testing::StartsWith("Best first: c (last loss 1), b (last loss 3), a "));
}

}  // namespace
}  // namespace pipeline::report
