// 95% intervals of figures.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace pipeline::intervals {

struct Interval {
  double low, high;
};

// The interval of a figure of many samples in clusters that has no formula for one, by resampling clusters
// (Efron 1979): from the 2.5th to the 97.5th percentile of 1,000 draws, which are the same on every machine.
// figure: of the samples with these numbers, each as often as it is there. Nothing with fewer than two
// clusters, or where hardly any draw has such a figure or it is NaN.
// A draw costs as much as the figure itself: of more sorted values than kMostResampled it takes long.
constexpr size_t kMostResampled = 100'000;
std::optional<Interval> resampled(
    std::span<const uint64_t> cluster_of,
    const std::function<std::optional<double>(std::span<const size_t>)>& figure);

// 95% intervals of means over parts that are not independent: residues of similar proteins are alike, whole
// clusters of them are not.

// What one cluster adds to a mean: sum and weight.
struct ClusterSum {
  double sum, weight;
};

// The interval of (sum of sums) / (sum of weights), as a ratio estimate over clusters of unequal sizes, with
// Student's t for as many clusters less one (Cochran 1977, Sampling Techniques, chapters 6 and 9). With few
// clusters it is as wide as that deserves; of one cluster nothing can be said.
std::optional<Interval> interval_of_mean(std::span<const ClusterSum> parts);

// The 97.5% quantile of Student's t distribution.
double t_quantile(size_t degrees_of_freedom);

// The 95% interval of a share of so many independent samples (Wilson 1927), which is no point at 0 and 1.
inline Interval wilson(double share, double samples) {
  constexpr double kNormal = 1.959964;
  const double z = kNormal * kNormal / samples, middle = (share + z / 2) / (1 + z),
               half = kNormal / (1 + z) * std::sqrt(share * (1 - share) / samples + z / (4 * samples));
  return {middle - half, middle + half};
}

}  // namespace pipeline::intervals
