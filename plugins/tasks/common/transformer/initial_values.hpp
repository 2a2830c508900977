#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pipeline::transformer {

// N(0, deviation) for parameter `index` of a model, a function of (seed, index) alone. `out`: in host memory.
void fill_normal(at::Tensor& out, double deviation, uint64_t seed, uint64_t index);

}  // namespace pipeline::transformer
