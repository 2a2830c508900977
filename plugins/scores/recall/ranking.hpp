// How well a ranking of documents answers queries, as BEIR judges it (Thakur et al., arXiv:2104.08663).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/scores/intervals/interval.hpp"

namespace pipeline::recall {

struct JudgedQueries {
  at::Tensor queries, documents;  // (Q, D), (M, D) fp32 in host memory; the larger a product, the nearer
  // Of each query, documents and their grades: those above 0 answer it, the higher the better.
  std::vector<std::vector<std::pair<int64_t, double>>> grades;
  std::vector<int64_t> left_out = {};  // of each query, a document that is not ranked; -1: none; empty: none
};

inline constexpr std::array<size_t, 4> kRankedAt{1, 5, 10, 100};

// Means over queries.
struct RankingFigures {
  struct Mean {
    double value;
    std::optional<intervals::Interval> interval;  // 95%
  };
  Mean ndcg_10;  // gains are grades, discounts log2(1 + rank), 1 for the best order (Järvelin and Kekäläinen)
  Mean mrr_10;                                // 1 / rank of the first that answers, 0 behind 10
  std::array<Mean, kRankedAt.size()> recall;  // share of what answers among the first so many
};

// Of documents that are as near, those that answer less come first, so that a model for which all is alike
// finds nothing. Queries without an answer are no part of the means; throws where there are none else.
RankingFigures rank(const JudgedQueries& judged);

}  // namespace pipeline::recall
