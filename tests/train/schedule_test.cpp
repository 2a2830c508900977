#include "core/train/session/schedule.hpp"

#include <gtest/gtest.h>

#include "core/train/train_state.hpp"

namespace pipeline::train {
namespace {

TEST(Schedule, WarmsUpThenFallsByACosine) {
  const Schedule schedule{
      .peak = 1, .kind = ScheduleKind::cosine, .warmup_steps = 4, .total_steps = 14, .final_ratio = 0.1};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(3), 1);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1);
  EXPECT_DOUBLE_EQ(schedule.at(9), 0.55);  // half way: (1 + 0.1) / 2
  EXPECT_NEAR(schedule.at(14), 0.1, 1e-15);
  EXPECT_NEAR(schedule.at(1000), 0.1, 1e-15);
}

TEST(Schedule, LinearAndConstant) {
  const Schedule linear{.peak = 2, .kind = ScheduleKind::linear, .total_steps = 10, .final_ratio = 0};
  EXPECT_DOUBLE_EQ(linear.at(0), 2);
  EXPECT_DOUBLE_EQ(linear.at(5), 1);
  const Schedule constant{.peak = 2, .kind = ScheduleKind::constant, .warmup_steps = 2};
  EXPECT_DOUBLE_EQ(constant.at(0), 1);
  EXPECT_DOUBLE_EQ(constant.at(1'000'000), 2);
}

TEST(Schedule, StaysAndFallsInTheLastSteps) {
  Schedule schedule{.peak = 2,
                    .kind = ScheduleKind::wsd,
                    .warmup_steps = 4,
                    .total_steps = 100,
                    .final_ratio = 0.1,
                    .decay_steps = 20};
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.5);
  for (const uint64_t step : {3, 4, 50, 80}) EXPECT_DOUBLE_EQ(schedule.at(step), 2) << step;
  EXPECT_DOUBLE_EQ(schedule.at(85), 2 * (0.1 + 0.9 * 0.75));
  EXPECT_DOUBLE_EQ(schedule.at(100), 0.2);
  schedule.fall = Fall::one_minus_sqrt;
  EXPECT_DOUBLE_EQ(schedule.at(80), 2);
  EXPECT_DOUBLE_EQ(schedule.at(85), 2 * (0.1 + 0.9 * 0.5));
  EXPECT_DOUBLE_EQ(schedule.at(100), 0.2);
  schedule.fall = Fall::cosine;
  EXPECT_DOUBLE_EQ(schedule.at(90), 2 * (0.1 + 0.9 * 0.5));
  // A decay that is longer than the run begins after the warm-up.
  schedule.decay_steps = 1000;
  schedule.fall = Fall::linear;
  EXPECT_DOUBLE_EQ(schedule.at(4), 2);
  EXPECT_DOUBLE_EQ(schedule.at(52), 2 * (0.1 + 0.9 * 0.5));
}

// The form of transformers' get_inverse_sqrt_schedule: 1 / sqrt((step + shift) / timescale).
TEST(Schedule, FallsByAnInverseRoot) {
  const Schedule schedule{.peak = 3, .kind = ScheduleKind::inverse_sqrt, .warmup_steps = 100};
  EXPECT_DOUBLE_EQ(schedule.at(49), 1.5);
  EXPECT_DOUBLE_EQ(schedule.at(100), 3);
  EXPECT_DOUBLE_EQ(schedule.at(400), 1.5);
  const Schedule cold{.peak = 3, .kind = ScheduleKind::inverse_sqrt};
  EXPECT_DOUBLE_EQ(cold.at(0), 3);
  EXPECT_DOUBLE_EQ(cold.at(30'000), 1.5);
}

TEST(Schedule, ScalesByEffectiveBatch) {
  EXPECT_DOUBLE_EQ(scale_learning_rate(1e-4, LrScaling::linear, 64, 8), 8e-4);
  EXPECT_NEAR(scale_learning_rate(1e-4, LrScaling::sqrt, 64, 8), 2.83e-4, 1e-6);
  EXPECT_DOUBLE_EQ(scale_learning_rate(1e-4, LrScaling::none, 64, 8), 1e-4);
}

TEST(LossScale, HalvesOnOverflowAndDoublesAfterTheInterval) {
  LossScale scale({.dynamic = true, .initial = 8, .growth_interval = 2});
  scale.update(false);
  EXPECT_EQ(scale.value(), 4);
  scale.update(true);
  scale.update(true);
  EXPECT_EQ(scale.value(), 8);
  EXPECT_EQ(scale.nonfinite_total(), 1u);
}

TEST(LossScale, OverflowsThatAHigherScaleExplainsDoNotCountAsFailures) {
  LossScale scale({.dynamic = true, .initial = 4, .growth_interval = 100});
  scale.update(false);
  scale.update(false);
  EXPECT_EQ(scale.nonfinite_in_a_row(), 0u);
  EXPECT_EQ(scale.value(), 1);
  EXPECT_EQ(scale.nonfinite_in_a_row(false), 1u);
  scale.update(false);
  EXPECT_EQ(scale.nonfinite_in_a_row(), 1u);
}

TEST(LossScale, WithoutScalingEveryFailureCounts) {
  LossScale scale(LossScale::Options{});
  scale.update(false);
  scale.update(false);
  EXPECT_EQ(scale.value(), 1);
  EXPECT_EQ(scale.nonfinite_in_a_row(), 2u);
  EXPECT_EQ(scale.nonfinite_in_a_row(false), 3u) << "with the step that it has yet to take in";
  EXPECT_EQ(scale.nonfinite_in_a_row(true), 0u);
  scale.update(true);
  EXPECT_EQ(scale.nonfinite_in_a_row(), 0u);
  EXPECT_EQ(scale.nonfinite_total(), 2u);
}

TEST(LossScale, ContinuesExactly) {
  LossScale a({.dynamic = true, .initial = 64, .growth_interval = 3}),
      b({.dynamic = true, .initial = 1, .growth_interval = 3});
  for (const bool finite : {true, true, false, true, true}) a.update(finite);
  b.load_state(a.state());
  for (const bool finite : {true, true, false}) {
    a.update(finite);
    b.update(finite);
    EXPECT_EQ(a.value(), b.value());
    EXPECT_EQ(a.state(), b.state());
  }
}

}  // namespace
}  // namespace pipeline::train
