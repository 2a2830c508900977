#pragma once

#include <ATen/core/Tensor.h>

#include "dropout.hpp"
#include "gelu.hpp"

namespace pipeline::transformer {

// The halves of a pre-norm transformer layer as autograd Functions. Each saves its input and what is dear to
// compute again; layer norm and GELU are done a second time in the backward pass instead of being kept.
// Weights are (in, out). x is the residual stream; the matrix products run in `compute` (fp32, or bf16/fp16
// as autocast would), sums over rows and norms in the dtype of x.
struct Norm {
  at::Tensor weight, bias;  // (C); without a bias it is RMS norm,
  double eps = 1e-5;
  bool has_mean = false;      // true: layer norm even without a bias
  bool is_above_one = false;  // multiplies by 1 + weight, as Gemma's does

  at::Tensor factor() const;
};
// The bias as layer_norm() takes it: zeros where layer norm has none, no elements where it is RMS norm.
at::Tensor bias_of(const Norm& norm);
struct Linear {
  at::Tensor weight, bias;  // (in, out), (out); the bias may be undefined: none
};

// The part that makes columns first .. first + count - 1 of its result.
Linear columns(const Linear& linear, int64_t first, int64_t count);

// norm(x): (N, C) in the dtype of x. Unlike LibTorch's, whose gradients of weight and bias depend on the
// number of threads.
at::Tensor norm_rows(const at::Tensor& x, const Norm& norm);

// norm(x) W + b: (N, out) in `compute`.
at::Tensor norm_linear(const at::Tensor& x, const Norm& norm, const Linear& linear, at::ScalarType compute);

// h W + b: (N, out) in the dtype of h.
at::Tensor linear(const at::Tensor& h, const Linear& linear);

// Adds h W, in the dtype of h, to the columns of y (N, C) from `first` on, in place: y is the fresh output of
// one of these.
at::Tensor add_product_(const at::Tensor& y, const at::Tensor& h, const at::Tensor& weight,
                        int64_t first = 0);

// residual + dropout(h W + b): (N, C) in the dtype of residual.
at::Tensor linear_residual(const at::Tensor& h, const Linear& linear, const at::Tensor& residual,
                           const Dropout& dropout);

// x + dropout(gelu(norm(x) W1 + b1) W2 + b2).
at::Tensor norm_mlp_residual(const at::Tensor& x, const Norm& norm, const Linear& up, const Linear& down,
                             const Dropout& dropout, at::ScalarType compute, Gelu form = Gelu::kTanh);

// x + gated_unit(norm(x) Wup) Wdown. up: (C, 2 inner), the gate's columns first; no biases.
at::Tensor norm_gated_residual(const at::Tensor& x, const Norm& norm, const Linear& up, const Linear& down,
                               at::ScalarType compute, Gate gate = Gate::kSilu);

}  // namespace pipeline::transformer
