#pragma once

#include <ATen/core/Tensor.h>

namespace pipeline::transformer {

// Our own kernels take contiguous fp32 rows in host memory. Everything else (CUDA, bf16, fp16, fp64) goes
// through ATen, which computes the same functions.
inline bool fast_path(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous();
}

}  // namespace pipeline::transformer
