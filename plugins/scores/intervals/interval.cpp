#include "plugins/scores/intervals/interval.hpp"

#include <algorithm>
#include <array>
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

std::optional<Interval> resampled(
    std::span<const uint64_t> cluster_of,
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
  return Interval{at(0.025), at(0.975)};
}

double t_quantile(size_t degrees_of_freedom) {
  constexpr std::array kFew{12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281};
  if (degrees_of_freedom <= kFew.size()) return kFew[degrees_of_freedom - 1];
  // Abramowitz and Stegun 1964, 26.7.5: an expansion about the normal distribution's quantile.
  const double z = 1.959964, n = static_cast<double>(degrees_of_freedom), z3 = z * z * z, z5 = z3 * z * z,
               z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

std::optional<Interval> interval_of_mean(std::span<const ClusterSum> parts) {
  double sum = 0, weight = 0, squares = 0;
  for (const ClusterSum& part : parts) sum += part.sum, weight += part.weight;
  if (parts.size() < 2 || weight <= 0) return std::nullopt;
  const double mean = sum / weight, clusters = static_cast<double>(parts.size());
  for (const ClusterSum& part : parts) squares += std::pow(part.sum - mean * part.weight, 2);
  const double half = t_quantile(parts.size() - 1) * std::sqrt(squares * clusters / (clusters - 1)) / weight;
  return Interval{mean - half, mean + half};
}

}  // namespace pipeline::intervals
