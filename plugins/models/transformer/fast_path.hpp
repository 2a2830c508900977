#pragma once

#include <ATen/core/Tensor.h>

namespace pipeline::transformer {

// Our own kernels for the CPU take contiguous fp32 rows in host memory. Everything else (CUDA, bf16, fp16,
// fp64) goes through ATen, which computes the same functions, but for what cuda/kernels.hpp may take.
inline bool fast_path(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous();
}

// fast_path() for our matrix products and attention, which take rows with padding between them, too.
inline bool fast_rows(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat && x.stride(1) == 1;
}

}  // namespace pipeline::transformer
