// The curve of a learning-rate range test.
#include "core/train/plan/rate_test.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace pipeline::train {
namespace {

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
