#include "plugins/scores/intervals/resampled.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace pipeline::intervals {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014), from seed 0.
class Draws {
 public:
  // 0 .. count - 1.
  uint64_t below(uint64_t count) { return static_cast<uint64_t>((static_cast<Wide>(next()) * count) >> 64); }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  uint64_t state_ = 0;
};

}  // namespace

std::optional<Bounds> resampled(std::span<const uint64_t> cluster_of,
                                const std::function<std::optional<double>(std::span<const size_t>)>& figure) {
  constexpr size_t kDraws = 1000;
  std::map<uint64_t, std::vector<size_t>> members;
  for (size_t i = 0; i < cluster_of.size(); ++i) members[cluster_of[i]].push_back(i);
  if (members.size() < 2) return std::nullopt;
  std::vector<const std::vector<size_t>*> clusters;
  for (const auto& [cluster, samples] : members) clusters.push_back(&samples);
  std::vector<double> figures;
  Draws draws;
  std::vector<size_t> drawn;
  for (size_t draw = 0; draw < kDraws; ++draw) {
    drawn.clear();
    for (size_t i = 0; i < clusters.size(); ++i) {
      const auto& samples = *clusters[draws.below(clusters.size())];
      drawn.insert(drawn.end(), samples.begin(), samples.end());
    }
    // A NaN has no place in an order. It is in more than half of the draws where one sample has it.
    if (const auto value = figure(drawn); value && !std::isnan(*value)) figures.push_back(*value);
  }
  if (figures.size() < kDraws / 2) return std::nullopt;
  std::ranges::sort(figures);
  const auto at = [&](double share) {
    return figures[static_cast<size_t>(share * static_cast<double>(figures.size() - 1) + 0.5)];
  };
  return Bounds{at(0.025), at(0.975)};
}

}  // namespace pipeline::intervals
