#include "plugins/tasks/protein/task/scoring.hpp"

#include <algorithm>

#include "plugins/tasks/protein/task/masking.hpp"

namespace pipeline::protein {

std::vector<ScoringPass> scoring_passes(uint64_t sample, std::span<const uint32_t> group_of, int64_t most) {
  const auto length = static_cast<int64_t>(group_of.size());
  std::vector<ScoringPass> passes;
  for (int64_t score = 0; score < length; score += most) {
    const int64_t count = std::min(most, length), first = std::min(score, length - count);
    const std::span<const uint32_t> scored =
        group_of.subspan(static_cast<size_t>(score), static_cast<size_t>(first + count - score));
    std::vector<uint32_t> groups(scored.begin(), scored.end());
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    for (const uint32_t group : groups)
      if (group != kNoGroup)
        passes.push_back({.sample = sample, .first = first, .count = count, .score = score, .group = group});
  }
  order_by_group(passes);
  return passes;
}

std::vector<ScoringPass> scoring_passes(uint64_t sample, int64_t length, uint64_t targets, uint64_t groups) {
  std::vector<ScoringPass> passes;
  for (uint64_t group = 0; group < std::min(groups, targets); ++group)
    passes.push_back(
        {.sample = sample, .first = 0, .count = length, .score = 0, .group = static_cast<uint32_t>(group)});
  return passes;
}

void order_by_group(std::vector<ScoringPass>& passes) {
  std::stable_sort(passes.begin(), passes.end(),
                   [](const ScoringPass& a, const ScoringPass& b) { return a.group < b.group; });
}

}  // namespace pipeline::protein
