#pragma once

#include <ATen/core/Tensor.h>

#include "blocks.hpp"

namespace pipeline::transformer {

// Layer norm over the last dimension of x (N, C), or, where `bias` has no elements, RMS norm (Zhang and
// Sennrich, arXiv:1910.07467), which has no mean. Not recorded by autograd: the blocks use it inside their
// own Functions.
struct LayerNormed {
  at::Tensor y;     // (N, C)
  at::Tensor mean;  // (N) on the fast path, (N, 1) elsewhere; RMS norm: none
  at::Tensor rstd;
};
LayerNormed layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double eps);

// y again, from the saved mean and rstd: the same bits. On a device y is kept instead.
at::Tensor layer_norm_again(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& mean, const at::Tensor& rstd);

struct LayerNormGradients {
  at::Tensor x, weight, bias;
};
// `residual` is added to the gradient of x: the branch that goes around the norm. Undefined where not wanted.
LayerNormGradients layer_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& bias, const at::Tensor& mean, const at::Tensor& rstd,
                                       const at::Tensor& residual, bool need_x, bool need_parameters);

}  // namespace pipeline::transformer
