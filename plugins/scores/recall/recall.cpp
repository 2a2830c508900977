#include "plugins/scores/recall/recall.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tensor.h>

#include "plugins/scores/intervals/interval.hpp"

namespace pipeline::recall {
namespace {

constexpr int64_t kBlock = 1024;  // rows whose similarities are in memory at a time

Recall recall_of(std::vector<int64_t> ranks, int64_t among) {
  Recall recall{.asked = static_cast<int64_t>(ranks.size()), .among = among};
  for (size_t k = 0; k < kRecallAt.size(); ++k)
    recall.at[k] = static_cast<double>(
                       std::ranges::count_if(ranks, [&](int64_t rank) { return rank <= kRecallAt[k]; })) /
                   static_cast<double>(ranks.size());
  const auto middle = ranks.begin() + static_cast<std::ptrdiff_t>(ranks.size() / 2);
  std::ranges::nth_element(ranks, middle);
  recall.median_rank = static_cast<double>(*middle);
  return recall;
}

// For each row of `asking` the rank of the best of those among `all` that belong to it.
std::vector<int64_t> ranks_of(const at::Tensor& asking, const std::vector<int64_t>& asks_for,
                              const at::Tensor& all, const std::vector<int64_t>& all_are) {
  std::vector<int64_t> ranks;
  for (int64_t first = 0; first < asking.size(0); first += kBlock) {
    const int64_t count = std::min(kBlock, asking.size(0) - first);
    const at::Tensor similar = at::mm(asking.narrow(0, first, count), all.t()).contiguous();
    const float* row = similar.const_data_ptr<float>();
    for (int64_t i = 0; i < count; ++i, row += all.size(0)) {
      const int64_t wanted = asks_for[static_cast<size_t>(first + i)];
      float best = -std::numeric_limits<float>::infinity();
      for (size_t j = 0; j < all_are.size(); ++j)
        if (all_are[j] == wanted) best = std::max(best, row[j]);
      int64_t rank = 1;
      for (size_t j = 0; j < all_are.size(); ++j)
        if (all_are[j] != wanted && !(row[j] < best)) ++rank;
      ranks.push_back(rank);
    }
  }
  return ranks;
}

}  // namespace

std::pair<double, double> Recall::interval(size_t k) const {
  const auto [low, high] = intervals::wilson(at[k], static_cast<double>(asked));
  return {low, high};
}

Retrieval retrieve(const at::Tensor& pictures, const at::Tensor& texts,
                   const std::vector<int64_t>& picture_of) {
  std::vector<int64_t> first, numbers;  // for each picture the first of its texts
  for (size_t i = 0; i < picture_of.size(); ++i) {
    if (picture_of[i] != static_cast<int64_t>(first.size())) continue;
    numbers.push_back(picture_of[i]);
    first.push_back(static_cast<int64_t>(i));
  }
  const at::Tensor once = pictures.index_select(0, at::tensor(first, at::kLong));
  return {recall_of(ranks_of(once, numbers, texts, picture_of), texts.size(0)),
          recall_of(ranks_of(texts, picture_of, once, numbers), once.size(0))};
}

CaptionRecall recall_of(std::span<const float> scores, size_t pictures) {
  const size_t captions = pictures == 0 ? 0 : scores.size() / pictures;
  const auto score = [&](size_t picture, size_t caption) {
    return static_cast<double>(scores[picture * captions + caption]);
  };
  // log of the mean over pictures of a caption's likelihood
  std::vector<double> usual(captions);
  for (size_t c = 0; c < captions; ++c) {
    double most = score(0, c), sum = 0;
    for (size_t p = 1; p < pictures; ++p) most = std::max(most, score(p, c));
    for (size_t p = 0; p < pictures; ++p) sum += std::exp(score(p, c) - most);
    usual[c] = most + std::log(sum / static_cast<double>(pictures));
  }
  CaptionRecall recall;  // a NaN is never best
  for (size_t i = 0; i < pictures; ++i) {
    bool caption_is_best = true, picture_is_best = true;
    for (size_t j = 0; j < captions; ++j)
      if (j != i && !(score(i, j) - usual[j] < score(i, i) - usual[i])) caption_is_best = false;
    for (size_t j = 0; j < pictures; ++j)
      if (j != i && !(score(j, i) < score(i, i))) picture_is_best = false;
    recall.captions += caption_is_best;
    recall.pictures += picture_is_best;
  }
  if (pictures > 0) {
    recall.captions /= static_cast<double>(pictures);
    recall.pictures /= static_cast<double>(pictures);
  }
  return recall;
}

}  // namespace pipeline::recall
