// Moments in 16 and 8 bits.
#include <cmath>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "plugins/strategies/common/rules/state_form.hpp"

namespace pipeline::strategies {
namespace {

const std::vector<StateForm> kNarrow{StateForm::kBFloat16, StateForm::kSigned8, StateForm::kUnsigned8};

// Values in the sizes of moments, with a block of zeros and one of a single value; no multiple of a block.
at::Tensor some_values(StateForm form) {
  at::manual_seed(7);
  at::Tensor values = at::randn({1000}).mul_(at::logspace(-12, 0, 1000));
  values.narrow(0, 128, 64).zero_();
  values.narrow(0, 256, 63).zero_();
  return form == StateForm::kUnsigned8 ? values.square() : values;
}

at::Tensor random_bits(float step) { return noise(3, 0, 1000, at::scalar_tensor(step)); }

TEST(StateForm, WhatItHasIsNeverRoundedAgain) {
  for (const StateForm form : kNarrow) {
    const Kept kept = make_state(form, 1000, at::kFloat), again = make_state(form, 1000, at::kFloat);
    EXPECT_TRUE(widened(form, kept).equal(at::zeros({1000})));
    narrow_to(form, some_values(form), random_bits(1), kept);
    const at::Tensor values = widened(form, kept);
    for (float step = 2; step < 30; ++step) {
      narrow_to(form, values, step == 2 ? at::Tensor() : random_bits(step), again);
      ASSERT_TRUE(widened(form, again).equal(values));
    }
  }
}

TEST(StateForm, IsRightOnAverage) {
  for (const StateForm form : kNarrow) {
    at::manual_seed(8);
    // Values of one size, so that every one is rounded both ways.
    at::Tensor values = at::rand({1000}, at::kDouble) + 0.5;
    if (form != StateForm::kUnsigned8) values *= at::randn({1000}, at::kDouble).sign();
    const Kept kept = make_state(form, 1000, at::kFloat);
    constexpr int kTimes = 400;
    double sum = 0, squares = 0;  // of errors, as shares of the values
    for (int i = 0; i < kTimes; ++i) {
      narrow_to(form, values.to(at::kFloat), random_bits(static_cast<float>(i)), kept);
      const at::Tensor error = widened(form, kept).to(at::kDouble) / values - 1;
      sum += error.sum().item<double>();
      squares += error.square().sum().item<double>();
    }
    EXPECT_GT(squares, 0);
    EXPECT_LT(std::abs(sum), 5 * std::sqrt(squares));
  }
}

// A moment that was rounded up beside a square that became zero would be a step without bounds.
TEST(StateForm, ASquareIsNeverRoundedToZero) {
  const Kept kept = make_state(StateForm::kUnsigned8, 64, at::kFloat);
  at::Tensor squares = at::full({64}, 1e-14);
  squares[5] = 1;
  squares[6] = 0;
  for (float step = 1; step < 9; ++step) {
    narrow_to(StateForm::kUnsigned8, squares, random_bits(step).narrow(0, 0, 64), kept);
    EXPECT_EQ(widened(StateForm::kUnsigned8, kept).count_nonzero().item<int64_t>(), 63);
  }
}

TEST(StateForm, NoiseBelongsToAnElementAndAStep) {
  const at::Tensor step = at::scalar_tensor(5.0f), whole = noise(2, 0, 4096, step);
  EXPECT_TRUE(noise(2, 1000, 96, step).equal(whole.narrow(0, 1000, 96)));
  EXPECT_FALSE(noise(3, 0, 4096, step).equal(whole));
  EXPECT_FALSE(noise(2, 0, 4096, at::scalar_tensor(6.0f)).equal(whole));
  for (const at::Tensor& half :
       {whole.bitwise_and(0xffff), whole.bitwise_right_shift(16).bitwise_and(0xffff)}) {
    EXPECT_NEAR(half.to(at::kDouble).mean().item<double>(), 32767.5, 5 * 18918 / 64.0);
    EXPECT_GT(std::get<0>(at::_unique(half)).numel(), 3800);
  }
}

}  // namespace
}  // namespace pipeline::strategies
