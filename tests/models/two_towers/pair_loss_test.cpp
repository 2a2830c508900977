// The losses of CLIP and SigLIP in blocks of rows equal those that autograd sees whole.
#include "plugins/models/two_towers/two_towers.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pipeline::two_towers {
namespace {

at::Tensor some_rows(int64_t count, int64_t width, double scale, bool has_bias) {
  at::manual_seed(7);
  const auto unit = [&] {
    const at::Tensor x = at::randn({count, width});
    return x / x.norm(2, 1, true);
  };
  return at::cat({unit() * scale, has_bias ? at::full({count, 1}, -3.0) : at::zeros({count, 1}), unit(),
                  at::ones({count, 1})},
                 1);
}

// Sums and gradients of all rows in pieces of `piece`.
RowLoss in_parts(PairLoss::Kind kind, const at::Tensor& rows, int64_t piece) {
  PairLoss loss(kind);
  loss.begin(rows);
  at::Tensor sum = at::zeros({});
  std::vector<at::Tensor> gradients;
  for (int64_t first = 0; first < rows.size(0); first += piece) {
    const RowLoss part = loss.part(rows, first, std::min(piece, rows.size(0) - first));
    sum = sum + part.sum;
    gradients.push_back(part.gradient);
  }
  return {sum, at::cat(gradients)};
}

RowLoss by_autograd(PairLoss::Kind kind, const at::Tensor& rows) {
  const at::Tensor leaf = rows.to(at::kDouble).requires_grad_();
  const at::Tensor sum = PairLoss(kind).all(leaf).sum();
  sum.backward();
  at::Tensor gradient = leaf.grad().clone();
  gradient.narrow(1, gradient.size(1) - 1, 1).zero_();  // whether there is a pair is not learnt
  return {sum.detach(), gradient};
}

void expect_equal(const RowLoss& seen, const RowLoss& expected, const char* what) {
  EXPECT_NEAR(seen.sum.item<double>() / expected.sum.item<double>(), 1, 1e-5) << what;
  const at::Tensor difference = seen.gradient.to(at::kDouble) - expected.gradient;
  EXPECT_LT(difference.norm().item<double>() / expected.gradient.norm().item<double>(), 1e-5) << what;
}

TEST(PairLoss, IsWhatAutogradMakesOfAllPairs) {
  for (const auto kind : {PairLoss::Kind::kSoftmax, PairLoss::Kind::kSigmoid}) {
    const char* what = kind == PairLoss::Kind::kSoftmax ? "softmax" : "sigmoid";
    const at::Tensor rows = some_rows(37, 8, 12, kind == PairLoss::Kind::kSigmoid);
    for (const int64_t piece : {37, 16, 5, 1})
      expect_equal(in_parts(kind, rows, piece), by_autograd(kind, rows), what);
  }
}

TEST(PairLoss, IsThatOfTheWholePairsAlone) {
  for (const auto kind : {PairLoss::Kind::kSoftmax, PairLoss::Kind::kSigmoid}) {
    const at::Tensor rows = some_rows(12, 8, 60, kind == PairLoss::Kind::kSigmoid);
    at::Tensor with_broken = rows.clone();
    for (const int64_t broken : {0, 7}) with_broken[broken][rows.size(1) - 1] = 0;
    const at::Tensor kept = at::tensor({1, 2, 3, 4, 5, 6, 8, 9, 10, 11});
    const RowLoss whole = in_parts(kind, rows.index_select(0, kept), 4),
                  some = in_parts(kind, with_broken, 5);
    EXPECT_NEAR(some.sum.item<double>() / whole.sum.item<double>(), 1, 1e-6);
    EXPECT_TRUE(some.gradient.isfinite().all().item<bool>());
    EXPECT_EQ(some.gradient[0].abs().sum().item<float>(), 0);
    EXPECT_LT((some.gradient.index_select(0, kept) - whole.gradient).norm().item<double>(),
              1e-5 * whole.gradient.norm().item<double>());
    EXPECT_NEAR(PairLoss(kind).all(with_broken).sum().item<double>() / whole.sum.item<double>(), 1, 1e-6);
  }
}

TEST(PairLoss, OfAnUntrainedModelIsThatOfAGuess) {
  at::Tensor rows = some_rows(32, 8, 1, false);
  rows.narrow(1, 0, 8).zero_();
  EXPECT_NEAR(PairLoss(PairLoss::Kind::kSoftmax).all(rows).mean().item<double>(), std::log(32.0), 1e-6);
  EXPECT_NEAR(PairLoss(PairLoss::Kind::kSigmoid).all(rows).mean().item<double>(), 32 * std::log(2.0), 1e-5);
}

// More rows than a block has.
TEST(PairLoss, GoesByBlocks) {
  const at::Tensor rows = some_rows(2500, 8, 5, false);
  const RowLoss all = in_parts(PairLoss::Kind::kSoftmax, rows, 2500);
  expect_equal(all, by_autograd(PairLoss::Kind::kSoftmax, rows), "blocks");
}

}  // namespace
}  // namespace pipeline::two_towers
