#include "plugins/tasks/protein/clusters/folds.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::protein {

std::vector<uint32_t> assign_folds(std::span<const uint64_t> cluster_residues, uint32_t folds) {
  if (folds == 0) throw files::DataError("clusters cannot be divided into 0 folds: ask for at least 1");
  std::vector<size_t> order(cluster_residues.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return cluster_residues[a] > cluster_residues[b]; });

  using Fold = std::pair<uint64_t, uint32_t>;  // residues, number
  std::priority_queue<Fold, std::vector<Fold>, std::greater<>> emptiest;
  for (uint32_t fold = 0; fold < folds; ++fold) emptiest.emplace(0, fold);
  std::vector<uint32_t> result(cluster_residues.size());
  for (const size_t cluster : order) {
    const auto [residues, fold] = emptiest.top();
    emptiest.pop();
    result[cluster] = fold;
    emptiest.emplace(residues + cluster_residues[cluster], fold);
  }
  return result;
}

}  // namespace pipeline::protein
