#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/train/plan/find_lr.hpp"
#include "core/train/session/schedule.hpp"
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

// The curve of a learning-rate range test.

TEST(RateCurve, SuggestsWhereTheLossFallsFastestAndATenthOfTheMinimum) {
  const RateTestArgs args{.first = 1e-6, .last = 1, .steps = 121};
  RateCurve curve;
  uint64_t step = 0;
  // Falls around 1e-3, rises from 1e-1 on.
  const auto loss = [](double rate) {
    return 3 - 2 / (1 + std::pow(1e-3 / rate, 2)) + 1e3 * std::pow(rate, 3);
  };
  while (step < args.steps && curve.add(rate_at(args, step), loss(rate_at(args, step)))) ++step;
  EXPECT_NEAR(curve.points().front().rate, 1e-6, 1e-12);
  EXPECT_NEAR(curve.points().front().smoothed, curve.points().front().loss, 1e-9)
      << "the average does not begin at zero";
  ASSERT_TRUE(curve.steepest());
  EXPECT_GT(*curve.steepest(), 5e-4);
  EXPECT_LT(*curve.steepest(), 5e-3) << "smoothing lags behind, but not by a decade";
  ASSERT_TRUE(curve.tenth_of_minimum());
  EXPECT_GT(*curve.tenth_of_minimum(), 1e-3);
  EXPECT_LT(*curve.tenth_of_minimum(), 5e-2);
  EXPECT_TRUE(curve.diverged());
  EXPECT_LT(step, args.steps) << "it stops at four times the least smoothed loss";
}

// With a rate that is too high a language model's loss goes from 8 to 15: that is no four times.
TEST(RateCurve, ALossFarAboveItsBeginningHasDiverged) {
  const auto ended_at = [](double end) {
    RateCurve curve;
    for (int i = 0; i < 100; ++i) {
      const double loss = i < 60 ? 8 - i / 30.0 : i < 80 ? 6 : 6 + (end - 6) * (i - 79) / 10;
      EXPECT_TRUE(curve.add(1e-7 * std::pow(10, i / 15.0), std::min(loss, end)));
    }
    EXPECT_NEAR(curve.first_loss(), 8 - 0.15, 1e-9);
    EXPECT_DOUBLE_EQ(curve.last_loss(), end);
    EXPECT_LT(curve.minimum()->rate, curve.points()[85].rate);
    return curve.diverged();
  };
  EXPECT_TRUE(ended_at(15));
  EXPECT_FALSE(ended_at(9));
}

TEST(RateCurve, WithoutAFallSuggestsNothing) {
  RateCurve curve;
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(curve.add(1e-6 * (i + 1), 1 + 0.01 * i));
  EXPECT_FALSE(curve.steepest());
  EXPECT_FALSE(curve.diverged());
}

TEST(RateCurve, EndsWithALossThatIsNoNumber) {
  RateCurve curve;
  EXPECT_TRUE(curve.add(1e-6, 1));
  EXPECT_FALSE(curve.add(1e-5, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(curve.diverged());
  EXPECT_EQ(curve.points().size(), 1u) << "what is no number is not drawn";
}

TEST(RateAt, RisesEvenlyOverTheLogarithm) {
  const RateTestArgs args{.first = 1e-4, .last = 1e-2, .steps = 3};
  EXPECT_DOUBLE_EQ(rate_at(args, 0), 1e-4);
  EXPECT_NEAR(rate_at(args, 1), 1e-3, 1e-12);
  EXPECT_NEAR(rate_at(args, 2), 1e-2, 1e-12);
}

}  // namespace
}  // namespace pipeline::train
