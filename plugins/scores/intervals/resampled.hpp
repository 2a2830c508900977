// Intervals of figures that have no formula for one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace pipeline::intervals {

struct Bounds {
  double low, high;
};

// The 95% interval of a figure of many samples in clusters, by resampling clusters (Efron 1979): from the
// 2.5th to the 97.5th percentile of 1,000 draws, which are the same on every machine. figure: of the samples
// with these numbers, each as often as it is there. Nothing with fewer than two clusters, or where hardly any
// draw has such a figure or it is NaN.
std::optional<Bounds> resampled(std::span<const uint64_t> cluster_of,
                                const std::function<std::optional<double>(std::span<const size_t>)>& figure);

}  // namespace pipeline::intervals
