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

// Columns first .. first + count - 1 are heads, each as wide as the norm's weight (D); count 0: none.
struct NormedHeads {
  int64_t first = 0, count = 0;
  Norm norm = {};  // without a bias
};

// x (N, C) with a norm over each head of some columns, as Qwen3 has of queries and keys, or over all of them
// together, as ESM C; the others as they are. Differentiable.
at::Tensor norm_heads(const at::Tensor& x, const NormedHeads& queries, const NormedHeads& keys);

}  // namespace pipeline::transformer
