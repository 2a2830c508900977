#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace pipeline::intervals {

// 95% intervals of means over parts that are not independent: residues of similar proteins are alike, whole
// clusters of them are not.

// What one cluster adds to a mean: sum and weight.
struct Part {
  double sum, weight;
};

struct Interval {
  double low, high;
};

// The interval of (sum of sums) / (sum of weights), as a ratio estimate over clusters of unequal sizes, with
// Student's t for as many clusters less one (Cochran 1977, Sampling Techniques, chapters 6 and 9). With few
// clusters it is as wide as that deserves; of one cluster nothing can be said.
std::optional<Interval> interval_of_mean(std::span<const Part> parts);

// The 97.5% quantile of Student's t distribution.
double t_quantile(size_t degrees_of_freedom);

}  // namespace pipeline::intervals
