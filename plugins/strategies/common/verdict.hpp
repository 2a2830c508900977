#pragma once

#include <ATen/ATen.h>

#include <pipeline.h>

#include "plugins/strategies/common/optimizer.hpp"

namespace pipeline::strategies {

// What the norm of a step's gradients means for its update.
struct Verdict {
  at::Tensor grad_norm;  // after inverse_scale, before clipping; scalars in double, on the device
  at::Tensor finite;     // 1 or 0
  GradientScale scale;   // undoes the loss scale and clips
  bool skip = false;     // known on the host already: the update must not happen
};

// Without a wait for the device: there the update itself looks at found_inf.
Verdict judge(const at::Tensor& sum_of_squares, const pl_step_args& args);

}  // namespace pipeline::strategies
