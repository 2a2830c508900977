#pragma once

#include <cstdint>

namespace pipeline::protein {

// Radial basis functions of a distance in ångström: exp(-kGaussianFactor (d - centre)^2).
constexpr int64_t kGaussians = 16;
constexpr float kFirstGaussian = 2;
constexpr float kGaussianStep = 20.0f / 15;
constexpr float kGaussianFactor = 1 / (2 * 1.25f * 1.25f);

constexpr float kLeastDistance = 1e-4f;  // ångström; a residue has no direction to itself

}  // namespace pipeline::protein
