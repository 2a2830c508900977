#include "plugins/tasks/protein/task/scoring.hpp"

#include <algorithm>

namespace pipeline::protein {

std::vector<ScoringPass> scoring_passes(const std::vector<int64_t>& lengths, int64_t most, uint64_t groups) {
  std::vector<ScoringPass> passes;
  for (uint64_t group = 0; group < groups; ++group)
    for (uint64_t sample = 0; sample < lengths.size(); ++sample) {
      const int64_t length = lengths[sample];
      for (int64_t score = 0; score < length; score += most) {
        const int64_t count = std::min(most, length), first = std::min(score, length - count);
        passes.push_back({.sample = sample, .first = first, .count = count, .score = score, .group = group});
      }
    }
  return passes;
}

}  // namespace pipeline::protein
