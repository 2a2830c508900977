#include "transformer/gelu.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "gradients.hpp"
#include "transformer/blocks.hpp"
#include "transformer/gemm.hpp"
#include "transformer/kernels/kernels.hpp"

namespace pipeline::transformer::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

float* data_of(at::Tensor& x) { return x.mutable_data_ptr<float>(); }

double furthest(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

class ExactGeluTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = kernels_named(GetParam());
    if (!kernels_) GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  const Kernels* kernels_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(InstructionSets, ExactGeluTest, ::testing::Values("avx512", "avx2", "sse2"));

TEST_P(ExactGeluTest, ValueAndSlopeAreRightToSevenDigits) {
  at::Tensor x = at::linspace(-4, 4, 800001), y = at::empty_like(x), again = at::empty_like(x),
             slope = at::ones_like(x);
  kernels_->gelu(Gelu::kExact, data_of(x), data_of(y), x.numel());
  kernels_->gelu_backward(Gelu::kExact, data_of(x), data_of(again), data_of(slope), x.numel());
  const at::Tensor exact = x.to(at::kDouble);
  const at::Tensor value = at::gelu(exact, "none");
  EXPECT_LT(furthest(y.sub(value).div(exact.abs().clamp_min(1)), at::zeros({1})), 1e-7);
  EXPECT_LT(furthest(slope, at::gelu_backward(at::ones_like(exact), exact, "none")), 1.5e-7);
  EXPECT_TRUE(again.equal(y));
}

// 0.5 x (1 + erf(x / sqrt(2))) in fp32 has no right digit below -5.
TEST_P(ExactGeluTest, TheTailKeepsItsDigits) {
  at::Tensor x = at::linspace(-12.5, -1, 100001), y = at::empty_like(x);
  kernels_->gelu(Gelu::kExact, data_of(x), data_of(y), x.numel());
  const at::Tensor exact = x.to(at::kDouble);
  const at::Tensor value = exact * at::special_erfc(-exact * std::sqrt(0.5)) * 0.5;
  EXPECT_LT(furthest(y / value, at::ones({1})), 1e-5);
}

TEST_P(ExactGeluTest, FarOutItIsZeroOrTheIdentity) {
  at::Tensor x = at::tensor({-3e38f, -1e20f, -1e4f, -30.0f, -0.0f, 0.0f, 30.0f, 1e4f, 1e20f, 3e38f});
  at::Tensor y = at::empty_like(x), slope = at::ones_like(x);
  kernels_->gelu_backward(Gelu::kExact, data_of(x), data_of(y), data_of(slope), x.numel());
  EXPECT_TRUE(y.equal(x.clamp_min(0)));
  EXPECT_TRUE(slope.equal(at::tensor({0.0f, 0.0f, 0.0f, 0.0f, 0.5f, 0.5f, 1.0f, 1.0f, 1.0f, 1.0f})));
}

TEST_P(ExactGeluTest, WhatIsNotFiniteStaysSo) {
  at::Tensor x = at::tensor({NAN, INFINITY, -INFINITY}), y = at::empty_like(x), slope = at::ones_like(x);
  kernels_->gelu_backward(Gelu::kExact, data_of(x), data_of(y), data_of(slope), x.numel());
  EXPECT_FALSE(y.isfinite().any().item<bool>());
  EXPECT_FALSE(slope.isfinite().any().item<bool>());
}

// The quick form, x sigmoid(1.702 x), far out too.
TEST_P(ExactGeluTest, TheQuickFormIsRightToSevenDigits) {
  at::Tensor x = at::cat({at::linspace(-30, 30, 60001), at::tensor({-1e20f, -1e4f, 0.0f, 1e4f, 1e20f})}),
             y = at::empty_like(x), again = at::empty_like(x), slope = at::ones_like(x);
  kernels_->gelu(Gelu::kQuick, data_of(x), data_of(y), x.numel());
  kernels_->gelu_backward(Gelu::kQuick, data_of(x), data_of(again), data_of(slope), x.numel());
  const at::Tensor exact = x.to(at::kDouble), s = at::sigmoid(exact * 1.702);
  EXPECT_LT(furthest(y.sub(exact * s).div(exact.abs().clamp_min(1)), at::zeros({1})), 3e-7);
  EXPECT_LT(furthest(slope, s * (1 + 1.702 * exact * (1 - s))), 1e-6);
  EXPECT_TRUE(again.equal(y));
}

TEST_P(ExactGeluTest, IsWrittenByTheProductToo) {
  for (const Gelu form : {Gelu::kExact, Gelu::kQuick}) {
    for (const auto& [m, n, k] :
         {std::tuple{1, 1, 1}, {14, 32, 384}, {15, 33, 385}, {229, 65, 20}, {6, 3080, 3}}) {
      const at::Tensor a = values({m, k}, 1), b = values({k, n}, 2), bias = values({n}, 3);
      at::Tensor c = at::empty({m, n}), y = at::empty({m, n});
      Gemm task{.m = m,
                .n = n,
                .k = k,
                .a = a.const_data_ptr<float>(),
                .lda = k,
                .a_transposed = false,
                .b = b.const_data_ptr<float>(),
                .ldb = n,
                .b_transposed = false,
                .c = data_of(c),
                .ldc = n,
                .bias = bias.const_data_ptr<float>()};
      at::Tensor plain = at::empty({m, n});
      task.c = data_of(plain);
      kernels_->gemm(task);
      task.c = data_of(c);
      task.gelu = data_of(y);
      task.form = form;
      kernels_->gemm(task);
      EXPECT_TRUE(c.equal(plain)) << m << " " << n << " " << k;
      at::Tensor expected = at::empty({m, n});
      kernels_->gelu(form, data_of(c), data_of(expected), c.numel());
      EXPECT_TRUE(y.equal(expected)) << m << " " << n << " " << k;
    }
  }
}

// GELU in every form, by LibTorch's operations that autograd knows.
at::Tensor plain_gelu(const at::Tensor& x, Gelu form) {
  return form == Gelu::kQuick ? x * at::sigmoid(x * 1.702) : at::gelu(x, torch_name(form));
}

TEST(GeluTest, AllFormsAreWhatAutogradMakesOfThem) {
  for (const Gelu form : {Gelu::kTanh, Gelu::kExact, Gelu::kQuick}) {
    expect_same_function(
        {values({37, 50}, 1) * 3}, [&](const Tensors& t) { return gelu(t[0], form); },
        [&](const Tensors& t) { return plain_gelu(t[0], form); });
    const at::Tensor x = values({37, 50}, 1).to(at::kBFloat16);
    expect_close(gelu(x, form), plain_gelu(x, form), 1e-2, "bf16");
  }
}

TEST(GeluTest, AProductOnAnyThreadsIsActivated) {
  const at::Tensor a = values({200, 70}, 1), b = values({70, 90}, 2);
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const at::Tensor y = at::empty({200, 90});
    const at::Tensor c = gemm(a, b, {.gelu = y, .gelu_form = Gelu::kExact});
    expect_close(y, at::gelu(c, "none"), 1e-6, std::to_string(threads));
  }
  at::set_num_threads(before);
}

TEST(GeluTest, AnMlpWithAnotherFormIsWhatAutogradMakesOfIt) {
  constexpr int64_t kRows = 37, kWidth = 24, kInner = 50;
  const Tensors inputs = {values({kRows, kWidth}, 1), values({kWidth}, 2),
                          values({kWidth}, 3),        values({kWidth, kInner}, 4) * 0.3,
                          values({kInner}, 5),        values({kInner, kWidth}, 6) * 0.3,
                          values({kWidth}, 7)};
  for (const Gelu form : {Gelu::kExact, Gelu::kQuick}) {
    const auto ours = [form](const Tensors& t, at::ScalarType compute) {
      return norm_mlp_residual(t[0], {t[1], t[2], 1e-5}, {t[3], t[4]}, {t[5], t[6]}, {}, compute, form);
    };
    const auto exact = [form](const Tensors& t) {
      const at::Tensor normed = at::layer_norm(t[0], {kWidth}, t[1], t[2], 1e-5);
      return t[0] + at::addmm(t[6], plain_gelu(at::addmm(t[4], normed, t[3]), form), t[5]);
    };
    expect_same_function(
        inputs, [&](const Tensors& t) { return ours(t, at::kFloat); }, exact);
    expect_close(ours(inputs, at::kBFloat16), exact(leaves(inputs, at::kDouble)), 2e-2, "bf16");
    expect_threads_do_not_matter(inputs, [&](const Tensors& t) { return ours(t, at::kFloat); });
  }
}

}  // namespace
}  // namespace pipeline::transformer::testing
