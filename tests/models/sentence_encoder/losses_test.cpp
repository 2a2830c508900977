// The losses of vectors of texts against their formulas on the whole batch.
#include "plugins/models/sentence_encoder/losses.hpp"

#include <cmath>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "plugins/models/sentence_encoder/sentence_encoder.hpp"

namespace pipeline::sentence_encoder {
namespace {

constexpr int64_t kWidth = 6, kRows = 9, kNegatives = 2, kTexts = 2 + kNegatives;

// Text t of row r is number keys[r][t]; 0: it is not there.
using Keys = std::vector<std::vector<int64_t>>;

at::Tensor rows_of(const Keys& keys) {
  at::manual_seed(3);
  const at::Tensor texts =
      at::cat({at::randn({kRows, kTexts, kWidth}), at::zeros({kRows, kTexts, kTextKey})}, 2);
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t t = 0; t < kTexts; ++t) {
      const int64_t key = keys.at(static_cast<size_t>(r)).at(static_cast<size_t>(t));
      if (key == 0)
        texts[r][t].zero_();
      else
        texts[r][t][kWidth] = key;
    }
  return texts.view({kRows, -1});
}

// All texts differ, but for: equal queries, equal right texts, a right text among the negatives, and
// negatives that are not there.
Keys awkward() {
  Keys keys;
  for (int64_t r = 0; r < kRows; ++r) keys.push_back({10 * r + 1, 10 * r + 2, 10 * r + 3, 10 * r + 4});
  keys[1][0] = keys[0][0];
  keys[3][1] = keys[2][1];
  keys[4][2] = keys[5][1];
  keys[6][3] = keys[7][2] = keys[7][3] = 0;
  return keys;
}

// The mean over its positives of a softmax written out, row by row.
at::Tensor formula(const at::Tensor& rows, const Keys& keys, const LossOptions& options) {
  const at::Tensor texts = rows.view({kRows, kTexts, -1});
  std::vector<at::Tensor> losses;
  for (size_t i = 0; i < kRows; ++i) {
    at::Tensor loss = at::zeros({});
    for (const int64_t width : options.dimensions) {
      const auto vector = [&](size_t r, size_t t) {
        const at::Tensor x = texts[static_cast<int64_t>(r)][static_cast<int64_t>(t)].narrow(0, 0, width);
        return x / x.norm();
      };
      const auto logit = [&](size_t query, size_t r, size_t t) {
        return (vector(query, 0) * vector(r, t)).sum() / options.temperature;
      };
      std::vector<at::Tensor> found, asked;
      for (size_t r = 0; r < kRows; ++r)
        for (size_t t = 1; t < kTexts; ++t) {
          const bool is_own = r == i && t == 1, is_right = keys[r][t] == keys[i][1],
                     is_of_equal_query = t == 1 && keys[r][0] == keys[i][0];
          if (keys[r][t] == 0 || (!is_own && (is_right || is_of_equal_query))) continue;
          found.push_back(logit(i, r, t));
          if (t == 1) asked.push_back(logit(r, i, 1));
        }
      const at::Tensor forward = at::logsumexp(at::stack(found), 0) - logit(i, i, 1);
      loss =
          loss + (options.is_symmetric ? (forward + at::logsumexp(at::stack(asked), 0) - logit(i, i, 1)) / 2
                                       : forward);
    }
    losses.push_back(loss);
  }
  return at::stack(losses);
}

TEST(RankingLoss, IsItsFormulaInParts) {
  const Keys keys = awkward();
  const at::Tensor rows = rows_of(keys);
  for (const LossOptions& options :
       {LossOptions{.temperature = 0.3, .is_symmetric = false, .dimensions = {kWidth}},
        LossOptions{.temperature = 0.3, .is_symmetric = true, .dimensions = {kWidth, 4, 2}}}) {
    const at::Tensor leaf = rows.clone().requires_grad_();
    const at::Tensor expected = formula(leaf, keys, options);
    const at::Tensor gradient = torch::autograd::grad({expected.sum()}, {leaf})[0];
    RankingLoss loss(kWidth, kNegatives, options);
    EXPECT_TRUE(loss.begin(rows).allclose(expected, 1e-5, 1e-6)) << loss.begin(rows) << expected;
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 4}, {4, 5}, {0, kRows}}) {
      const RowLoss part = loss.part(rows, first, count);
      EXPECT_NEAR(part.sum.item<float>(), expected.narrow(0, first, count).sum().item<float>(), 1e-5);
      at::Tensor right = gradient.narrow(0, first, count).clone();
      right.view({count, kTexts, -1}).narrow(2, kWidth, kTextKey).zero_();  // keys are no outputs
      // A text that is not there has no length, and no gradient.
      right.nan_to_num_(0, 0, 0);
      EXPECT_TRUE(part.gradient.allclose(right, 1e-4, 1e-5)) << part.gradient - right;
    }
  }
}

TEST(RankingLoss, TellsTextsApartByTheirKeys) {
  std::vector<float> a(kTextKey), b(kTextKey), none(kTextKey);
  write_key({.low = 7, .high = 1}, a.data());
  write_key({.low = 7, .high = 2}, b.data());
  EXPECT_EQ(a, b);
  write_key({.low = 7 + (uint64_t{1} << 40)}, b.data());
  EXPECT_NE(a, b);
  std::vector<float> zero(kTextKey);
  write_key({}, zero.data());
  EXPECT_NE(zero, none) << "no text is like one that is not there";
}

TEST(SimilarityLoss, PutsPairsInTheOrderOfTheirScores) {
  at::manual_seed(4);
  const at::Tensor rows = at::randn({5, 2 * kWidth + 1});
  const SimilarityLoss loss(kWidth, {.temperature = 0.5, .dimensions = {}});
  const at::Tensor losses = loss.losses(rows);
  std::vector<double> cosines, scores;
  for (int64_t i = 0; i < 5; ++i) {
    const at::Tensor x = rows[i].narrow(0, 0, kWidth), y = rows[i].narrow(0, kWidth, kWidth);
    cosines.push_back(((x * y).sum() / x.norm() / y.norm()).item<double>());
    scores.push_back(rows[i][2 * kWidth].item<double>());
  }
  double sum = 1;
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 5; ++j)
      if (scores[i] > scores[j]) sum += std::exp((cosines[j] - cosines[i]) / 0.5);
  EXPECT_TRUE(losses.allclose(at::full({5}, std::log(sum)), 1e-5, 1e-6)) << losses << std::log(sum);
}

}  // namespace
}  // namespace pipeline::sentence_encoder
