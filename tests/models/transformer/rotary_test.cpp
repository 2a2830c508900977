#include "transformer/rotary.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradients.hpp"
#include "transformer/blocks.hpp"

namespace pipeline::transformer::testing {
namespace {

constexpr int64_t kRotaryRows = 150, kHeads = 3, kHeadWidth = 10, kRotaryWidth = kHeads * kHeadWidth;

using Tensors = std::vector<at::Tensor>;

at::Tensor positions() { return at::arange(kRotaryRows, at::kLong) * 7 % 101; }

// Rotation by its definition: each pair of channels is a complex number, turned by e^(i angle).
at::Tensor by_complex_numbers(const at::Tensor& x, int64_t width) {
  const int64_t half = kHeadWidth / 2;
  const at::Tensor frequencies = rotary_frequencies(kHeadWidth).to(x.scalar_type());
  const at::Tensor angles = positions().to(x.scalar_type()).unsqueeze(1) * frequencies;
  const at::Tensor unit = at::polar(at::ones_like(angles), angles).unsqueeze(1);
  const at::Tensor heads = x.narrow(1, 0, width).reshape({kRotaryRows, -1, 2, half});
  const at::Tensor turned = at::complex(heads.select(2, 0), heads.select(2, 1)) * unit;
  return at::cat({at::cat({at::real(turned), at::imag(turned)}, 2).reshape({kRotaryRows, width}),
                  x.narrow(1, width, x.size(1) - width)},
                 1);
}

// rotate_() writes over its input, which a leaf does not allow.
at::Tensor rotated(const at::Tensor& x, int64_t width) {
  return rotate_(x * 1, width, rotation(positions(), rotary_frequencies(kHeadWidth)));
}

TEST(RotaryTest, FrequenciesFallFromOneToTheBase) {
  const at::Tensor frequencies = rotary_frequencies(64);
  EXPECT_EQ(frequencies.numel(), 32);
  EXPECT_EQ(frequencies[0].item<float>(), 1.0f);
  EXPECT_NEAR(frequencies[16].item<double>(), 0.01, 1e-9);
  EXPECT_NEAR(frequencies[31].item<double>(), std::pow(10000.0, -31.0 / 32), 1e-10);
  EXPECT_THROW(rotary_frequencies(7), c10::Error);
}

TEST(RotaryTest, IsWhatAutogradMakesOfComplexNumbers) {
  for (const int64_t width : {int64_t{0}, kRotaryWidth, 2 * kRotaryWidth, 3 * kRotaryWidth}) {
    expect_same_function(
        {values({kRotaryRows, 3 * kRotaryWidth}, 1)}, [&](const Tensors& t) { return rotated(t[0], width); },
        [&](const Tensors& t) { return by_complex_numbers(t[0], width); }, 4e-6);
  }
}

TEST(RotaryTest, ProductsDependOnTheDistanceAlone) {
  const at::Tensor q = values({1, kHeadWidth}, 1), k = values({1, kHeadWidth}, 2);
  const auto product = [&](int64_t query, int64_t key) {
    const at::Tensor frequencies = rotary_frequencies(kHeadWidth);
    const at::Tensor a =
        rotate_(q.clone(), kHeadWidth, rotation(at::tensor({query}, at::kLong), frequencies));
    const at::Tensor b = rotate_(k.clone(), kHeadWidth, rotation(at::tensor({key}, at::kLong), frequencies));
    return a.mul(b).sum().item<double>();
  };
  EXPECT_NEAR(product(3, 5), product(103, 105), 1e-5);
  EXPECT_GT(std::abs(product(3, 5) - product(3, 6)), 1e-2);
}

TEST(RotaryTest, WritesOverTheOutputOfABlock) {
  const Norm norm{values({kRotaryWidth}, 2), values({kRotaryWidth}, 3)};
  const Tensors in = {values({kRotaryRows, kRotaryWidth}, 1), values({kRotaryWidth, 3 * kRotaryWidth}, 4),
                      values({3 * kRotaryWidth}, 5)};
  const at::Tensor qkv = norm_linear(in[0], norm, {in[1], in[2]}, at::kFloat);
  const at::Tensor turned =
      rotate_(qkv, 2 * kRotaryWidth, rotation(positions(), rotary_frequencies(kHeadWidth)));
  EXPECT_EQ(turned.const_data_ptr(), qkv.const_data_ptr());
  expect_same_function(
      in,
      [&](const Tensors& t) {
        return rotate_(norm_linear(t[0], norm, {t[1], t[2]}, at::kFloat), 2 * kRotaryWidth,
                       rotation(positions(), rotary_frequencies(kHeadWidth)));
      },
      [&](const Tensors& t) {
        const at::Tensor normed = at::layer_norm(t[0], {kRotaryWidth}, norm.weight.to(at::kDouble),
                                                 norm.bias.to(at::kDouble), norm.eps);
        return by_complex_numbers(at::addmm(t[2], normed, t[1]), 2 * kRotaryWidth);
      },
      4e-6);
}

TEST(RotaryTest, TheGradientOfSomebodyElseIsNotWrittenOver) {
  const at::Tensor x = values({kRotaryRows, kRotaryWidth}, 1).requires_grad_(true);
  const at::Tensor weights = values({kRotaryRows, kRotaryWidth}, 2), kept = weights.clone();
  rotated(x, kRotaryWidth).backward(weights);
  EXPECT_TRUE(weights.equal(kept));
}

TEST(RotaryTest, OtherDtypesComputeTheSameFunction) {
  const at::Tensor x = values({kRotaryRows, 2 * kRotaryWidth}, 1),
                   exact = by_complex_numbers(x.to(at::kDouble), kRotaryWidth);
  expect_close(rotated(x.to(at::kDouble), kRotaryWidth), exact, 1e-6, "fp64");
  const at::Tensor low = rotated(x.to(at::kBFloat16), kRotaryWidth);
  EXPECT_EQ(low.scalar_type(), at::kBFloat16);
  expect_close(low, exact, 5e-3, "bf16");
}

TEST(RotaryTest, WhatDoesNotFitIsNamed) {
  const Rotation by = rotation(positions(), rotary_frequencies(kHeadWidth));
  EXPECT_THROW(rotate_(values({kRotaryRows, kRotaryWidth}, 1), kRotaryWidth + 1, by), c10::Error);
  EXPECT_THROW(rotate_(values({kRotaryRows + 1, kRotaryWidth}, 1), kRotaryWidth, by), c10::Error);
}

TEST(RotaryTest, ThreadsDoNotMatter) {
  expect_threads_do_not_matter({values({kRotaryRows, kRotaryWidth}, 1)},
                               [](const Tensors& t) { return rotated(t[0], kRotaryWidth); });
}

}  // namespace
}  // namespace pipeline::transformer::testing
