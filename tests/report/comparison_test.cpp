#include "core/report/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

}  // namespace
}  // namespace pipeline::report
