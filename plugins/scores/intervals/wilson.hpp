// The interval of a share.
#pragma once

#include <cmath>

#include "plugins/scores/intervals/resampled.hpp"

namespace pipeline::intervals {

// The 95% interval of a share of so many independent samples (Wilson 1927), which is no point at 0 and 1.
inline Bounds wilson(double share, double samples) {
  constexpr double kNormal = 1.959964;
  const double z = kNormal * kNormal / samples, middle = (share + z / 2) / (1 + z),
               half = kNormal / (1 + z) * std::sqrt(share * (1 - share) / samples + z / (4 * samples));
  return {middle - half, middle + half};
}

}  // namespace pipeline::intervals
