#include "plugins/scores/intervals/mean.hpp"

#include <array>
#include <cmath>

namespace pipeline::intervals {

double t_quantile(size_t degrees_of_freedom) {
  constexpr std::array kFew{12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281};
  if (degrees_of_freedom <= kFew.size()) return kFew[degrees_of_freedom - 1];
  // Abramowitz and Stegun 1964, 26.7.5: an expansion about the normal distribution's quantile.
  const double z = 1.959964, n = static_cast<double>(degrees_of_freedom), z3 = z * z * z, z5 = z3 * z * z,
               z7 = z5 * z * z;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

std::optional<Interval> interval_of_mean(std::span<const Part> parts) {
  double sum = 0, weight = 0, squares = 0;
  for (const Part& part : parts) sum += part.sum, weight += part.weight;
  if (parts.size() < 2 || weight <= 0) return std::nullopt;
  const double mean = sum / weight, clusters = static_cast<double>(parts.size());
  for (const Part& part : parts) squares += std::pow(part.sum - mean * part.weight, 2);
  const double half = t_quantile(parts.size() - 1) * std::sqrt(squares * clusters / (clusters - 1)) / weight;
  return Interval{mean - half, mean + half};
}

}  // namespace pipeline::intervals
