#include "core/report/comparison.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/report/page.hpp"
#include "tests/report/run_folder.hpp"

namespace pipeline::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Curve losses(const std::vector<uint64_t>& steps, const std::vector<double>& values) {
  return {.steps = steps, .figures = {{"loss", values}}};
}

TEST(LossVerdict, SaysHowFarTwoCurvesAreApart) {
  const Curve reference = losses({1, 2, 3}, {4, 2, 1});
  EXPECT_EQ(describe(compare_losses(reference, reference, 0)), "equal to the bit in 3 steps");
  const double next = std::nextafter(2.0, 3);
  EXPECT_EQ(compare_losses(losses({1, 2, 3}, {4, next, 1}), reference, 0).kind, LossVerdict::Kind::differs);
  EXPECT_EQ(describe(compare_losses(losses({1, 2, 3}, {4, 2.002, 1}), reference, 0.01)),
            "same: within 1.0e-03, first differs at step 2");
  const LossVerdict far = compare_losses(losses({1, 2, 3}, {4.004, 2.5, 2}), reference, 0.01);
  EXPECT_EQ(describe(far), "DIFFERS: by 1.0e+00 at step 3, beyond the tolerance from step 2");
  EXPECT_EQ(far.first, 1u);
  EXPECT_FALSE(far.is_same());
}

TEST(LossVerdict, AlignsBySteps) {
  const Curve reference = losses({1, 2, 3, 4}, {4, 3, 2, 1});
  EXPECT_EQ(compare_losses(losses({2, 4, 9}, {3, 1, 7}), reference, 0).steps, 2u);
  EXPECT_EQ(compare_losses(losses({7, 8}, {1, 1}), reference, 1).kind, LossVerdict::Kind::nothing_in_common);
  EXPECT_FALSE(compare_losses({}, reference, 1).is_same());
}

TEST(LossVerdict, WhatIsNoNumberIsSameOnlyAsThat) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(compare_losses(losses({1}, {kNan}), losses({1}, {kNan}), 0).kind, LossVerdict::Kind::equal);
  EXPECT_FALSE(compare_losses(losses({1}, {kNan}), losses({1}, {1}), 1e9).is_same());
  EXPECT_FALSE(compare_losses(losses({1}, {1}), losses({1}, {kNan}), 1e9).is_same());
  EXPECT_FALSE(compare_losses(losses({1}, {1}), losses({1}, {0}), 1e9).is_same());
}

TEST(LossVerdict, SaysWhereALossIsNoNumber) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                   kInfinite = std::numeric_limits<double>::infinity();
  const Curve diverges = losses({1, 2, 3, 4}, {4, kInfinite, kNan, kNan});
  EXPECT_EQ(describe(compare_losses(losses({1, 2, 3, 4}, {4, 3, 2, 1}), diverges, 1e9)),
            "DIFFERS: 3 against inf at step 2, beyond the tolerance from step 2");
  EXPECT_EQ(describe(compare_losses(diverges, diverges, 0)),
            "equal to the bit in 4 steps; in 3 of them both are not finite, first at step 2");
  EXPECT_EQ(describe(compare_losses(losses({1, 2, 3, 4}, {4, kNan, kNan, kNan}), diverges, 0)),
            "DIFFERS: nan against inf at step 2, beyond the tolerance from step 2");
}

TEST(Comparison, SaysWhatRunsCostAndHowTheyDiffer) {
  const std::string common = "[run]\ndir = \"x\"\n[train]\nglobal_batch = 8\n";
  const Comparison comparison = compare(
      {tests::record_of("single", {2, 1}, 1, 1, common + "[strategy]\nplugin = \"single\"\n"),
       tests::record_of("ddp", {2, 1}, 0.625, 2, common + "[strategy]\nplugin = \"ddp\"\noverlap = true\n"),
       tests::record_of("other", {2, 1}, 1, 1, "[run]\ndir = \"y\"\n[train]\nglobal_batch = 9\n")},
      0);
  EXPECT_TRUE(comparison.all_same());
  EXPECT_DOUBLE_EQ(comparison.efficiency(1).value(), 0.8);
  const auto differences = comparison.differences();
  ASSERT_EQ(differences.size(), 2u) << "not run.dir, nor what only one plugin has";
  EXPECT_EQ(differences[0].key, "strategy.plugin");
  EXPECT_EQ(differences[1].key, "train.global_batch");
  EXPECT_THAT(differences[1].values, ElementsAre("8", "8", "9"));
  const std::string text = table(comparison);
  EXPECT_THAT(
      text,
      HasSubstr("ddp     2      1          160         1.60x  80%         5.0 MB         equal to the bit"));
  EXPECT_THAT(text, HasSubstr("compute 75%, data 25%\n"));
  EXPECT_THAT(text, HasSubstr("compute 75%, data 25%; rank 1 works 20% longer than the mean\n"));
  EXPECT_THAT(text, HasSubstr("The losses are the same (tolerance 0, relative)."));
}

TEST(Comparison, DevicesThatNvmlKnowsAreSummedUp) {
  RunRecord run = tests::record_of("a", {2, 1}, 1, 2);
  EXPECT_EQ(run.device_use(), std::nullopt);
  for (auto& rank : run.summary["ranks"])
    rank.update({{"device_utilisation", 0.9}, {"driver_memory", 5'000'000'000}});
  EXPECT_THAT(table(compare({run}, 0)), HasSubstr("mean; devices busy 90%, 5.0 GB of memory in use\n"));
  run.summary["ranks"][1]["device_utilisation"] = 0.7;
  EXPECT_THAT(table(compare({run}, 0)),
              HasSubstr("; devices busy 80%, that of rank 1 70%, 5.0 GB of memory"));
}

TEST(Comparison, OneThatDiffersDecides) {
  const Comparison comparison = compare(
      {tests::record_of("a", {2, 1}), tests::record_of("b", {2, 1}), tests::record_of("c", {2, 1.5})}, 1e-3);
  EXPECT_FALSE(comparison.all_same());
  EXPECT_THAT(table(comparison), HasSubstr("The losses are NOT the same"));
}

TEST(Comparison, RunsThatFailedOrWereNotMadeAreRowsAfterTheOthers) {
  RunRecord failed = tests::record_of("failed", {2, 1}), not_run = tests::record_of("not", {});
  failed.made = RunRecord::Made::failed;
  failed.why_not = "exited with code 2";
  not_run.made = RunRecord::Made::no;
  not_run.why_not = "it is for one";
  const Comparison comparison =
      compare({not_run, failed, tests::record_of("a", {2, 1}), tests::record_of("b", {2, 1})}, 0);
  EXPECT_FALSE(comparison.all_same()) << "one failed";
  const std::string text = table(comparison);
  EXPECT_THAT(text, testing::ContainsRegex("\na +2 .* the reference\nb +2 .* equal to the bit in 2 steps\n"
                                           "failed +2 .* FAILED: exited with code 2; until then equal to the "
                                           "bit in 2 steps\nnot  .* not run: it is for one\n"));
  EXPECT_THAT(text, testing::EndsWith("\nThe losses of the runs that did not fail are the same (tolerance 0, "
                                      "relative).\nFailed: failed.\n"));
  EXPECT_TRUE(compare({not_run, tests::record_of("a", {2}), tests::record_of("b", {2})}, 0).all_same());
  EXPECT_THAT(table(compare({failed, tests::record_of("a", {2, 1})}, 0)),
              HasSubstr("\nNOT COMPARED: there are no two runs with losses.\nFailed: failed.\n"));
  const auto data = page_data(comparison, "", true);
  EXPECT_EQ(data["runs"][2]["verdict"], "FAILED: exited with code 2; until then equal to the bit in 2 steps");
  EXPECT_EQ(data["runs"][3]["same"], true);
  EXPECT_EQ(data["same"], false);
  EXPECT_EQ(data["runs"][0]["last_loss"], 1);
  const RunRecord diverged = tests::record_of("d", {2, NAN});
  EXPECT_EQ(page_data(compare({diverged}, 0), "", false)["runs"][0]["last_loss"], "nan");
}

}  // namespace
}  // namespace pipeline::report
