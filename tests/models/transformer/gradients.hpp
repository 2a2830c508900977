#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pipeline::transformer::testing {

// Deterministic, different everywhere, about N(0, 1) in size; float32 on the CPU.
inline at::Tensor values(at::IntArrayRef shape, double phase) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::sin(at::arange(count, at::kDouble) * 0.7 + phase).mul(1.4).to(at::kFloat).view(shape);
}

inline std::vector<at::Tensor> leaves(const std::vector<at::Tensor>& tensors,
                                      at::ScalarType type = at::kFloat) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors)
    copies.push_back(tensor.to(type).clone().detach().requires_grad_(true));
  return copies;
}

// The difference is small against the size of the expected tensor.
inline void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance,
                         const std::string& what) {
  ASSERT_TRUE(actual.defined() && expected.defined()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const at::Tensor wanted = expected.to(at::kDouble).cpu();
  const double size = wanted.norm().item<double>();
  const double difference = (actual.cpu().to(at::kDouble) - wanted).norm().item<double>();
  EXPECT_LE(difference, tolerance * (size + 1e-12)) << what << ": of norm " << size;
}

// f on fp32 leaves (our kernels) against g on fp64 leaves (ATen): result and every gradient. `f` and `g` take
// leaves.
template <class F, class G>
void expect_same_function(const std::vector<at::Tensor>& inputs, const F& f, const G& g,
                          double tolerance = 2e-6) {
  const std::vector<at::Tensor> ours = leaves(inputs), exact = leaves(inputs, at::kDouble);
  const at::Tensor y = f(ours), expected = g(exact);
  expect_close(y, expected, tolerance, "result");
  const at::Tensor weights = values(expected.sizes(), 0.3);
  (y * weights).sum().backward();
  (expected * weights.to(at::kDouble)).sum().backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect_close(ours[i].grad(), exact[i].grad(), 3 * tolerance, "gradient of input " + std::to_string(i));
  }
}

// Expects the same bits from f, gradients included, with 1, 2 and 3 threads.
template <class F>
void expect_threads_do_not_matter(const std::vector<at::Tensor>& inputs, const F& f) {
  const int before = at::get_num_threads();
  std::vector<std::vector<at::Tensor>> results;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const std::vector<at::Tensor> ours = leaves(inputs);
    const at::Tensor y = f(ours);
    (y * values(y.sizes(), 0.3)).sum().backward();
    results.push_back({y.detach()});
    for (const at::Tensor& leaf : ours) results.back().push_back(leaf.grad());
  }
  at::set_num_threads(before);
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(results[0][i].equal(results[1][i])) << "tensor " << i << " with 2 threads";
    EXPECT_TRUE(results[0][i].equal(results[2][i])) << "tensor " << i << " with 3 threads";
  }
}

}  // namespace pipeline::transformer::testing
