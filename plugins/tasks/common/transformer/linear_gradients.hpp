#pragma once

#include <ATen/core/Tensor.h>

#include "gemm.hpp"

namespace pipeline::transformer {

// The pieces that the blocks' backward passes are made of, for y = x W + b with W (in, out).

// dW (in, out) = x^T dy in the dtype of the parameter; undefined when not needed.
inline at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& weight,
                                  bool needed) {
  if (!needed) return {};
  return gemm(x, dy, {.a_transposed = true}).to(weight.scalar_type());
}

inline at::Tensor bias_gradient(const at::Tensor& dy, const at::Tensor& bias, bool needed) {
  if (!needed) return {};
  return column_sum(dy).to(bias.scalar_type());
}

// dx (N, in) = dy W^T
inline at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return gemm(dy, weight.to(dy.scalar_type()), {.b_transposed = true});
}

}  // namespace pipeline::transformer
