#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradients.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/embedding.hpp"

namespace pipeline::transformer::testing {
namespace {

constexpr int64_t kHeadRows = 29, kHeadInputs = 24, kVocab = 61;
constexpr double kHeadEps = 1e-5;

using Tensors = std::vector<at::Tensor>;

Tensors inputs() {  // x, norm weight and bias, head
  return {values({kHeadRows, kHeadInputs}, 1), values({kHeadInputs}, 2), values({kHeadInputs}, 3),
          values({kVocab, kHeadInputs}, 4)};
}

at::Tensor some_targets() {
  at::Tensor targets = at::arange(kHeadRows, at::kLong) * 13 % kVocab;
  targets.slice(0, 0, kHeadRows, 3).fill_(-1);
  return targets;
}

at::Tensor exact_sum(const Tensors& t, const at::Tensor& targets) {
  const at::Tensor logits = at::mm(at::layer_norm(t[0], {kHeadInputs}, t[1], t[2], kHeadEps), t[3].t());
  return at::nll_loss(at::log_softmax(logits, 1), targets, {}, at::Reduction::Sum, -1);
}

LossSum head(const Tensors& t, const at::Tensor& targets, const HeadOptions& options) {
  const at::Tensor rows = at::nonzero(targets >= 0).squeeze(1);
  return cross_entropy_head(t[0].index_select(0, rows), targets.index_select(0, rows), {t[1], t[2], kHeadEps},
                            t[3], options);
}

TEST(HeadTest, LossAndGradientsForAnyChunk) {
  for (const at::Tensor& targets : {some_targets(), at::arange(kHeadRows, at::kLong)}) {
    for (const int64_t chunk : {0, 1, 4, 100}) {
      expect_same_function(
          inputs(),
          [&](const Tensors& t) { return head(t, targets, {.scale = 0.25, .chunk = chunk}).scaled; },
          [&](const Tensors& t) { return exact_sum(t, targets) * 0.25; });
    }
  }
}

// Losses of rows that are not summed alike: each row's gradient has a factor of its own.
TEST(HeadTest, RowsWithFactors) {
  const at::Tensor rows = at::nonzero(some_targets() >= 0).squeeze(1), factors = values({rows.size(0)}, 5);
  for (const int64_t chunk : {0, 1, 4})
    for (const double softcap : {0.0, 1.5})
      expect_same_function(
          inputs(),
          [&](const Tensors& t) {
            const at::Tensor losses = cross_entropy_rows(
                t[0].index_select(0, rows), some_targets().index_select(0, rows), {t[1], t[2], kHeadEps},
                t[3], {.chunk = chunk, .compute = t[0].scalar_type(), .softcap = softcap});
            return (losses.square() * factors.to(losses.scalar_type())).sum();
          },
          [&](const Tensors& t) {
            at::Tensor logits = at::mm(at::layer_norm(t[0], {kHeadInputs}, t[1], t[2], kHeadEps), t[3].t());
            if (softcap > 0) logits = (logits / softcap).tanh() * softcap;
            const at::Tensor losses =
                at::nll_loss(at::log_softmax(logits, 1), some_targets(), {}, at::Reduction::None, -1);
            return (losses.index_select(0, rows).square() * factors.to(losses.scalar_type())).sum();
          });
}

// Logits are capped as in Gemma 2.
TEST(HeadTest, CappedLogits) {
  constexpr double kCap = 1.5;  // far below the largest
  const auto exact = [&](const Tensors& t) {
    const at::Tensor logits = at::mm(at::layer_norm(t[0], {kHeadInputs}, t[1], t[2], kHeadEps), t[3].t());
    return at::nll_loss(at::log_softmax((logits / kCap).tanh() * kCap, 1), some_targets(), {},
                        at::Reduction::Sum, -1) *
           0.25;
  };
  for (const int64_t chunk : {0, 4})
    expect_same_function(
        inputs(),
        [&](const Tensors& t) {
          return head(t, some_targets(), {.scale = 0.25, .chunk = chunk, .softcap = kCap}).scaled;
        },
        exact);
  const Tensors t = inputs();
  const at::Tensor capped = head_logits(t[0], {t[1], t[2], kHeadEps}, t[3], at::kFloat, {}, kCap),
                   plain = head_logits(t[0], {t[1], t[2], kHeadEps}, t[3], at::kFloat);
  EXPECT_TRUE(capped.allclose((plain / kCap).tanh() * kCap, 1e-5, 1e-6));
}

constexpr LossTerms kAllTerms[] = {
    {.z_loss = 0.1}, {.label_smoothing = 0.3}, {.z_loss = 0.1, .label_smoothing = 0.3}};

// The loss by PyTorch's own operations.
at::Tensor exact_with(const Tensors& t, const LossTerms& terms, double softcap) {
  at::Tensor logits = at::mm(at::layer_norm(t[0], {kHeadInputs}, t[1], t[2], kHeadEps), t[3].t());
  if (softcap > 0) logits = (logits / softcap).tanh() * softcap;
  const at::Tensor has_target = (some_targets() >= 0).to(logits.scalar_type());
  return at::cross_entropy_loss(logits, some_targets(), {}, at::Reduction::Sum, -1, terms.label_smoothing) +
         (at::logsumexp(logits, 1).square() * has_target).sum() * terms.z_loss;
}

TEST(HeadTest, TermsOfTheLossForAnyChunk) {
  for (const LossTerms& terms : kAllTerms)
    for (const int64_t chunk : {0, 4})
      for (const double softcap : {0.0, 1.5})
        expect_same_function(
            inputs(),
            [&](const Tensors& t) {
              return head(t, some_targets(),
                          {.scale = 0.25, .chunk = chunk, .softcap = softcap, .terms = terms})
                  .scaled;
            },
            [&](const Tensors& t) { return exact_with(t, terms, softcap) * 0.25; }, 4e-6);
}

TEST(HeadTest, TermsOfTheLossInOtherTypes) {
  for (const auto& [compute, tolerance] : {std::pair(at::kDouble, 1e-13), {at::kBFloat16, 3e-2}}) {
    for (const LossTerms& terms : kAllTerms) {
      const auto type = compute == at::kDouble ? at::kDouble : at::kFloat;
      const Tensors ours = leaves(inputs(), type), exact = leaves(inputs(), at::kDouble);
      const LossSum loss = head(ours, some_targets(), {.scale = 0.1, .compute = compute, .terms = terms});
      const at::Tensor expected = exact_with(exact, terms, 0);
      // Sums are handed over in float32.
      expect_close(loss.sum, expected, std::max(tolerance / 10, 1e-7), "sum");
      loss.scaled.backward();
      (expected * 0.1).backward();
      for (size_t i = 0; i < ours.size(); ++i)
        expect_close(ours[i].grad(), exact[i].grad(), tolerance, std::to_string(i));
    }
  }
}

TEST(HeadTest, ARowsLossHasNoTerms) {
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    const Tensors t = leaves(inputs());
    const int64_t rows = (some_targets() >= 0).sum().item<int64_t>();
    const at::Tensor plain = at::empty({rows}), beside_terms = at::empty({rows});
    head(t, some_targets(), {.compute = compute, .row_losses = plain});
    head(t, some_targets(), {.compute = compute, .terms = kAllTerms[2], .row_losses = beside_terms});
    EXPECT_TRUE(plain.equal(beside_terms));
  }
}

TEST(HeadTest, TheSumIsNotScaledAndNeedsNoGradients) {
  const Tensors t = leaves(inputs());
  const double expected = exact_sum(leaves(inputs(), at::kDouble), some_targets()).item<double>();
  EXPECT_NEAR(head(t, some_targets(), {.scale = 0.25}).sum.item<double>(), expected, 1e-6 * expected);
  const at::NoGradGuard no_grad;
  const LossSum loss = head(t, some_targets(), {.scale = 0.25});
  EXPECT_NEAR(loss.sum.item<double>(), expected, 1e-6 * expected);
  EXPECT_FALSE(loss.scaled.requires_grad());
}

TEST(HeadTest, NoTargetAtAllGivesZeros) {
  const Tensors t = leaves(inputs());
  const LossSum loss = head(t, at::full({kHeadRows}, -1, at::kLong), {});
  EXPECT_EQ(loss.sum.item<double>(), 0);
  loss.scaled.backward();
  for (const at::Tensor& leaf : t) EXPECT_TRUE(leaf.grad().eq(0).all().item<bool>());
}

TEST(HeadTest, AnotherFactorThanOneIsApplied) {
  const Tensors once = leaves(inputs()), thrice = leaves(inputs());
  head(once, some_targets(), {}).scaled.backward();
  (head(thrice, some_targets(), {}).scaled * 3).backward();
  for (size_t i = 0; i < once.size(); ++i)
    expect_close(thrice[i].grad(), once[i].grad() * 3, 1e-6, std::to_string(i));
}

TEST(HeadTest, LowPrecisionComputesTheSameFunction) {
  const Tensors ours = leaves(inputs()), exact = leaves(inputs(), at::kDouble);
  const LossSum loss = head(ours, some_targets(), {.scale = 0.1, .compute = at::kBFloat16});
  const at::Tensor expected = exact_sum(exact, some_targets());
  EXPECT_NEAR(loss.sum.item<double>(), expected.item<double>(), 1e-2 * expected.item<double>());
  loss.scaled.backward();
  (expected * 0.1).backward();
  for (size_t i = 0; i < ours.size(); ++i)
    expect_close(ours[i].grad(), exact[i].grad(), 3e-2, std::to_string(i));
}

TEST(HeadTest, ATiedTableGetsOneGradient) {
  const at::Tensor tokens = at::arange(kHeadRows, at::kLong) % 7,
                   positions = at::arange(kHeadRows, at::kLong) % 5;
  const auto run = [&](const at::Tensor& table, const at::Tensor& places,
                       std::shared_ptr<SharedGradient> shared) {
    const at::Tensor x = embed(tokens, positions, table, places, {}, shared);
    const Tensors in = inputs();
    cross_entropy_head(x, at::arange(kHeadRows, at::kLong), {in[1], in[2], kHeadEps}, table,
                       {.shared = shared})
        .scaled.backward();
  };
  const Tensors tied = leaves({values({kVocab, kHeadInputs}, 4), values({5, kHeadInputs}, 5)});
  const Tensors apart = leaves({values({kVocab, kHeadInputs}, 4), values({5, kHeadInputs}, 5)});
  run(tied[0], tied[1], std::make_shared<SharedGradient>());
  run(apart[0], apart[1], nullptr);
  expect_close(tied[0].grad(), apart[0].grad(), 1e-6, "table");
  expect_close(tied[1].grad(), apart[1].grad(), 1e-6, "positions");
}

TEST(HeadTest, ABiasIsAddedAndGetsItsGradient) {
  Tensors in = inputs();
  in.push_back(values({kVocab}, 5));
  const auto ours = [](const Tensors& t, const HeadOptions& options) {
    return cross_entropy_head(t[0], at::arange(kHeadRows, at::kLong), {t[1], t[2], kHeadEps}, t[3], options,
                              t[4]);
  };
  const auto exact_logits = [](const Tensors& t) {
    return at::mm(at::layer_norm(t[0], {kHeadInputs}, t[1], t[2], kHeadEps), t[3].t()) + t[4];
  };
  for (const int64_t chunk : {0, 1, 4, 100}) {
    expect_same_function(
        in, [&](const Tensors& t) { return ours(t, {.scale = 0.25, .chunk = chunk}).scaled; },
        [&](const Tensors& t) {
          return at::nll_loss(at::log_softmax(exact_logits(t), 1), at::arange(kHeadRows, at::kLong), {},
                              at::Reduction::Sum) *
                 0.25;
        });
  }
  expect_close(head_logits(in[0], {in[1], in[2], kHeadEps}, in[3], at::kFloat, in[4]),
               exact_logits(leaves(in, at::kDouble)), 2e-6, "logits");

  Tensors only_bias = in;  // the rest is frozen
  only_bias[4] = in[4].clone().requires_grad_(true);
  ours(only_bias, {}).scaled.backward();
  Tensors all = leaves(in);
  (ours(all, {.compute = at::kFloat}).scaled * 3).backward();
  expect_close(all[4].grad(), only_bias[4].grad() * 3, 1e-6, "bias");
  Tensors frozen_bias = leaves(in);
  frozen_bias[4].requires_grad_(false);
  ours(frozen_bias, {}).scaled.backward();
  EXPECT_FALSE(frozen_bias[4].grad().defined());
}

TEST(HeadTest, ThreadsDoNotMatter) {
  const Tensors in = {values({300, kHeadInputs}, 1), values({kHeadInputs}, 2), values({kHeadInputs}, 3),
                      values({500, kHeadInputs}, 4)};
  const at::Tensor targets = at::arange(300, at::kLong);
  expect_threads_do_not_matter(in, [&](const Tensors& t) { return head(t, targets, {.chunk = 100}).scaled; });
}

// Gradients that are sums of many terms, in bfloat16: added up in it they stand still at some 256 terms.

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
