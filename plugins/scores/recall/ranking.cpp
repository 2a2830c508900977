#include "plugins/scores/recall/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>

namespace pipeline::recall {
namespace {

constexpr int64_t kQueryBlock = 256;  // queries whose similarities are in memory at a time
constexpr size_t kJudged = 10;        // ranks that nDCG and MRR look at

double discount(size_t rank) { return 1 / std::log2(1 + static_cast<double>(rank)); }

RankingFigures::Mean mean_of(const std::vector<double>& values) {
  std::vector<intervals::ClusterSum> parts;
  for (const double value : values) parts.push_back({value, 1});
  return {std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          intervals::interval_of_mean(parts)};
}

// The grades of the nearest documents, the nearest first.
std::vector<double> nearest_grades(const float* similar, size_t documents, int64_t left_out,
                                   const std::unordered_map<size_t, double>& grades,
                                   std::vector<size_t>& order) {
  const auto grade_of = [&](size_t document) {
    const auto found = grades.find(document);
    return found == grades.end() ? 0 : found->second;
  };
  order.resize(documents);
  std::iota(order.begin(), order.end(), size_t{0});
  if (left_out >= 0) order.erase(order.begin() + left_out);
  const size_t count = std::min(kRankedAt.back(), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](size_t a, size_t b) {
                      if (similar[a] != similar[b]) return similar[a] > similar[b];
                      const double of_a = grade_of(a), of_b = grade_of(b);
                      return of_a != of_b ? of_a < of_b : a < b;
                    });
  std::vector<double> nearest;
  for (size_t i = 0; i < count; ++i) nearest.push_back(grade_of(order[i]));
  return nearest;
}

}  // namespace

RankingFigures rank(const JudgedQueries& judged) {
  const auto documents = static_cast<size_t>(judged.documents.size(0));
  std::vector<double> ndcg, mrr;
  std::array<std::vector<double>, kRankedAt.size()> recall;
  std::vector<size_t> order;
  for (int64_t first = 0; first < judged.queries.size(0); first += kQueryBlock) {
    const int64_t count = std::min(kQueryBlock, judged.queries.size(0) - first);
    const at::Tensor similar =
        at::mm(judged.queries.narrow(0, first, count), judged.documents.t()).contiguous();
    for (int64_t i = 0; i < count; ++i) {
      const auto query = static_cast<size_t>(first + i);
      std::unordered_map<size_t, double> grades;
      std::vector<double> best;
      for (const auto& [document, grade] : judged.grades[query]) {
        grades[static_cast<size_t>(document)] = grade;
        if (grade > 0) best.push_back(grade);
      }
      if (best.empty()) continue;
      const float* const similarity = similar.const_data_ptr<float>() + static_cast<size_t>(i) * documents;
      if (std::any_of(similarity, similarity + documents, [](float one) { return std::isnan(one); })) {
        // Nothing can be ranked by it, and no mean hides it.
        constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
        ndcg.push_back(kNone), mrr.push_back(kNone);
        for (auto& of_rank : recall) of_rank.push_back(kNone);
        continue;
      }
      std::ranges::sort(best, std::greater());
      const std::vector<double> nearest = nearest_grades(
          similarity, documents, judged.left_out.empty() ? -1 : judged.left_out[query], grades, order);
      double gain = 0, ideal = 0, reciprocal = 0;
      for (size_t at = 0; at < std::min(kJudged, best.size()); ++at) ideal += best[at] * discount(at + 1);
      for (size_t at = 0; at < std::min(kJudged, nearest.size()); ++at) {
        gain += std::max(nearest[at], 0.0) * discount(at + 1);
        if (nearest[at] > 0 && reciprocal == 0) reciprocal = 1 / static_cast<double>(at + 1);
      }
      ndcg.push_back(gain / ideal);
      mrr.push_back(reciprocal);
      for (size_t k = 0; k < kRankedAt.size(); ++k) {
        const auto end =
            nearest.begin() + static_cast<std::ptrdiff_t>(std::min(kRankedAt[k], nearest.size()));
        recall[k].push_back(
            static_cast<double>(std::count_if(nearest.begin(), end, [](double grade) { return grade > 0; })) /
            static_cast<double>(best.size()));
      }
    }
  }
  TORCH_CHECK(!ndcg.empty(), "no query has a document that answers it");
  RankingFigures figures{.ndcg_10 = mean_of(ndcg), .mrr_10 = mean_of(mrr), .recall = {}};
  for (size_t k = 0; k < kRankedAt.size(); ++k) figures.recall[k] = mean_of(recall[k]);
  return figures;
}

}  // namespace pipeline::recall
