#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace pipeline::strategies {

// The gradient of a run of the arena: float32, one-dimensional, contiguous, a multiple of kRun long. A run
// that is missing from a list is all zero.
struct GradientRun {
  int64_t offset;  // of its first element in the arena, a multiple of kRun
  at::Tensor gradient;
};

using GradientRuns = std::vector<GradientRun>;  // by offset

}  // namespace pipeline::strategies
