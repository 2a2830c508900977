// Gradients that are sums of many terms, in bfloat16: added up in it they stand still at some 256 terms.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradients.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/embedding.hpp"

namespace pipeline::transformer::testing {
namespace {

constexpr int64_t kTerms = 5000, kWidth = 16, kNarrowVocab = 7;
constexpr double kTolerance = 4e-3;  // bfloat16's rounding of the sum itself

std::vector<at::Tensor> bf16(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rounded;
  for (const at::Tensor& tensor : tensors) rounded.push_back(tensor.to(at::kBFloat16));
  return rounded;
}

// All gradients of f in bfloat16 against those in double, from the same bfloat16 values. f: leaves -> scalar.
template <class F>
void expect_same_gradients(const std::vector<at::Tensor>& inputs, const F& f, double tolerance) {
  const std::vector<at::Tensor> narrow = leaves(inputs, at::kBFloat16),
                                exact = leaves(bf16(inputs), at::kDouble);
  f(narrow).backward();
  f(exact).backward();
  for (size_t i = 0; i < inputs.size(); ++i)
    expect_close(narrow[i].grad(), exact[i].grad(), tolerance, "gradient of input " + std::to_string(i));
}

TEST(NarrowSumsTest, OfAnEmbeddingWithOneTokenManyTimes) {
  const at::Tensor token = at::full({kTerms}, 3, at::kLong), place = at::arange(kTerms, at::kLong) % 2;
  const at::Tensor weights = (values({kTerms, kWidth}, 3) + 2).to(at::kBFloat16);
  const std::vector<at::Tensor> tables = {values({kNarrowVocab, kWidth}, 1), values({2, kWidth}, 2)};
  const auto embedded = [&](const std::vector<at::Tensor>& t) {
    return (embed(token, place, t[0], t[1], {}).to(at::kDouble) * weights.to(at::kDouble)).sum();
  };
  expect_same_gradients(tables, embedded, kTolerance);
  const auto looked_up = [&](const std::vector<at::Tensor>& t) {
    return (look_up(t[0], token).to(at::kDouble) * weights.to(at::kDouble)).sum();
  };
  expect_same_gradients({tables[0]}, looked_up, kTolerance);
}

// Hundreds of products are added up.
TEST(NarrowSumsTest, OfAHeadOverManyChunks) {
  const at::Tensor targets = at::full({kTerms}, 3, at::kLong);
  const std::vector<at::Tensor> inputs = {values({kTerms, kWidth}, 1) + 3, values({kWidth}, 2) + 2,
                                          values({kWidth}, 3), values({kNarrowVocab, kWidth}, 4) * 0.1,
                                          values({kNarrowVocab}, 5)};
  const auto loss = [&](const std::vector<at::Tensor>& t, int64_t chunk) {
    const at::ScalarType type = t[0].scalar_type();
    return cross_entropy_head(t[0], targets, {t[1], t[2], 1e-5}, t[3], {.chunk = chunk, .compute = type},
                              t[4])
        .scaled;
  };
  const std::vector<at::Tensor> many = leaves(inputs, at::kBFloat16), one = leaves(inputs, at::kBFloat16);
  loss(many, 8).backward();
  loss(one, kTerms).backward();
  for (size_t i = 3; i < inputs.size(); ++i)
    expect_close(many[i].grad(), one[i].grad(), kTolerance, "gradient of input " + std::to_string(i));
  expect_same_gradients(
      inputs, [&](const std::vector<at::Tensor>& t) { return loss(t, 8); }, 1e-2);
}

// What a head leaves to a tied embedding, or gives to who takes it early, is in float32 already.
TEST(NarrowSumsTest, AHeadHandsOnItsSumInFloat) {
  const std::vector<at::Tensor> t = leaves(
      {values({9, kWidth}, 1), values({kWidth}, 2), values({kWidth}, 3), values({kNarrowVocab, kWidth}, 4)},
      at::kBFloat16);
  const auto shared = std::make_shared<SharedGradient>();
  at::Tensor taken;
  shared->take_head = [&](at::Tensor gradient) { taken = std::move(gradient); };
  cross_entropy_head(t[0], at::arange(9, at::kLong) % kNarrowVocab, {t[1], t[2], 1e-5}, t[3],
                     {.compute = at::kBFloat16, .shared = shared})
      .scaled.backward();
  EXPECT_EQ(taken.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace pipeline::transformer::testing
