#include "transformer/kernels/kernels.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradients.hpp"
#include "transformer/dropout.hpp"
#include "transformer/gemm.hpp"

namespace pipeline::transformer::testing {
namespace {

class KernelsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    kernels_ = kernels_named(GetParam());
    if (!kernels_) GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  const Kernels* kernels_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(InstructionSets, KernelsTest, ::testing::Values("avx512", "avx2", "sse2"));

float* data(at::Tensor& x) { return x.mutable_data_ptr<float>(); }
const float* data(const at::Tensor& x) { return x.const_data_ptr<float>(); }

TEST_P(KernelsTest, GemmOfEveryLayoutAndRaggedSizes) {
  for (const auto& [m, n, k] :
       {std::tuple{1, 1, 1}, {3, 5, 7}, {14, 32, 384}, {15, 33, 385}, {229, 65, 20}, {6, 3080, 3}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const at::Tensor a = a_transposed ? values({k, m}, 1) : values({m, k}, 1);
        const at::Tensor b = b_transposed ? values({n, k}, 2) : values({k, n}, 2);
        const at::Tensor bias = values({n}, 3), addend = values({m, n}, 4);
        at::Tensor c = values({m, n}, 5), gelu = at::empty({m, n});
        const at::Tensor product =
            at::mm((a_transposed ? a.t() : a).to(at::kDouble), (b_transposed ? b.t() : b).to(at::kDouble));
        const at::Tensor expected = product + bias + addend + c;
        kernels_->gemm({.m = m,
                        .n = n,
                        .k = k,
                        .a = data(a),
                        .lda = a.stride(0),
                        .a_transposed = a_transposed,
                        .b = data(b),
                        .ldb = b.stride(0),
                        .b_transposed = b_transposed,
                        .c = data(c),
                        .ldc = n,
                        .accumulate = true,
                        .bias = data(bias),
                        .addend = data(addend),
                        .gelu = data(gelu)});
        const std::string what = c10::str(m, " ", n, " ", k, " ", a_transposed, b_transposed);
        expect_close(c, expected, 3e-6, what);  // sums of sines cancel
        expect_close(gelu, at::gelu(expected, "tanh"), 2e-6, what + " gelu");
      }
    }
  }
}

TEST_P(KernelsTest, GeluAndItsGradientFarOutToo) {
  const at::Tensor x = at::cat({at::linspace(-30, 30, 6001), at::tensor({-1e4f, 1e4f, 0.0f})});
  at::Tensor y = at::empty_like(x), again = at::empty_like(x), d = at::ones_like(x);
  kernels_->gelu(data(x), data(y), x.numel());
  kernels_->gelu_backward(data(x), data(again), data(d), x.numel());
  const at::Tensor exact = x.to(at::kDouble);
  EXPECT_LT((y - at::gelu(exact, "tanh")).abs().max().item<double>(), 2e-6);
  EXPECT_LT((d - at::gelu_backward(at::ones_like(exact), exact, "tanh")).abs().max().item<double>(), 2e-6);
  EXPECT_LT((again - y).abs().max().item<double>(), 4e-6);
}

TEST_P(KernelsTest, CrossEntropyOfLargeAndSmallLogits) {
  for (const int64_t columns : {1, 5, 16, 17, 1000}) {
    for (const double size : {1.0, 1000.0}) {
      at::Tensor logits = values({columns}, 1) * size;
      const at::Tensor exact = logits.to(at::kDouble);
      const int64_t target = columns / 2;
      const float loss = kernels_->cross_entropy_row(data(logits), columns, target, true, 0.5f);
      const at::Tensor log_p = at::log_softmax(exact, 0);
      EXPECT_NEAR(loss, -log_p[target].item<double>(), 1e-6 * (1 + size));
      at::Tensor gradient = log_p.exp() * 0.5;
      gradient[target] -= 0.5;
      EXPECT_LT((logits - gradient).abs().max().item<double>(), 1e-6 * (1 + size / 100));
    }
  }
}

TEST_P(KernelsTest, DropoutIsTheSameOnEveryInstructionSet) {
  const Dropout dropout{0.25, 77};
  const int64_t columns = 1003;
  const at::Tensor expected = dropout_mask(dropout, 5, 1, columns, at::kFloat);  // by ATen
  const at::Tensor ones = at::ones({1, columns});
  at::Tensor y = at::empty_like(ones);
  kernels_->dropout(data(ones), nullptr, data(y), columns,
                    {dropout_row_key(dropout.key, 5), dropout.threshold(), dropout.scale()});
  EXPECT_TRUE(y.equal(expected));
}

TEST_P(KernelsTest, LayerNormKeepsDigitsUnderALargeMean) {
  const at::Tensor x = values({3, 37}, 1) + 1000, weight = values({37}, 2), bias = values({37}, 3);
  at::Tensor y = at::empty_like(x), mean = at::empty({3}), rstd = at::empty({3});
  kernels_->layer_norm(data(x), data(weight), data(bias), data(y), data(mean), data(rstd), 3, 37, 1e-5f);
  const auto exact =
      at::layer_norm(x.to(at::kDouble), {37}, weight.to(at::kDouble), bias.to(at::kDouble), 1e-5);
  expect_close(y, exact, 1e-4, "y");
}

TEST(GemmTest, RowsDoNotDependOnTheirNumberNorOnThreads) {
  const at::Tensor a = values({200, 700}, 1), b = values({700, 90}, 2);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor whole = gemm(a, b);
  for (const int threads : {2, 3, 4}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(gemm(a, b).equal(whole)) << threads;
  }
  at::set_num_threads(before);
  for (const int64_t rows : {1, 3, 14, 15, 100})
    EXPECT_TRUE(gemm(a.narrow(0, 0, rows), b).equal(whole.narrow(0, 0, rows))) << rows;
}

TEST(DropoutTest, KeepsTheShareItShould) {
  const at::Tensor y = apply_dropout(at::ones({500, 200}), {0.1, 3});
  EXPECT_NEAR(y.eq(0).sum().item<double>() / 1e5, 0.1, 0.005);
  EXPECT_NEAR(y.mean().item<double>(), 1, 0.005);
  EXPECT_FALSE(y[0].equal(y[1]));
  EXPECT_FALSE(y.equal(apply_dropout(at::ones({500, 200}), {0.1, 4})));
}

}  // namespace
}  // namespace pipeline::transformer::testing
