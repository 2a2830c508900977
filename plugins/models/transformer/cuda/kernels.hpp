#pragma once

#include <ATen/core/Tensor.h>

#include "quantization/matrix_form.hpp"
#include "transformer/kernels/forms.hpp"

// Our own kernels for CUDA, each the counterpart of one in kernels/ for the CPU.
// Tensors of a call are of one device; x and what has its shape are of one type, float32, bfloat16 or
// float16. Results do not depend on anything but the arguments.
namespace pipeline::transformer::cuda {

// Whether x is of a device and a type that the kernels take.
bool has_kernels_for(const at::Tensor& x);
// has_kernels_for() for those that take contiguous rows x (N, C) of whole vectors of 16 bytes, and for the
// norms', where a thread has a vector.
bool has_row_kernels_for(const at::Tensor& x);
bool has_norm_kernels_for(const at::Tensor& x);
// For gated (N, 2 inner) of which both halves are whole vectors.
bool has_gated_kernels_for(const at::Tensor& gated);

// Negative log likelihoods of the targets: (N), float32. `added`, with terms, receives what they add, in the
// same form. With `gradient`, logits become scale times the gradient of both: without terms, softmax - one
// hot. logits: (N, C), rows begin at multiples of 16 bytes; targets: (N), int64.
at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& targets, bool gradient, double scale,
                         const LossTerms& terms = {}, at::Tensor added = {});

// The values of a matrix in 8 or 4 bits: data (rows, bytes) -> (rows, columns) of `type`, whose memory the
// next matrix takes when they are let go.
at::Tensor decode(quantization::Form form, const at::Tensor& data, int64_t columns, at::ScalarType type);

// Sums over rows of x (N, C): (C), float32.
at::Tensor column_sum(const at::Tensor& x);

// y = gelu(x), and d, the gradient of y, becomes that of x. Returns the new d's sums over rows: (C), float32.
// All (N, C).
at::Tensor gelu_backward(const at::Tensor& x, at::Tensor& d, at::Tensor& y, Gelu form);

// transformer::gated_unit(): (N, 2 inner) -> (N, inner); and dgated from dh, with h again where it is
// defined.
at::Tensor gated_unit(const at::Tensor& gated, Gate gate);
void gated_unit_backward(const at::Tensor& gated, const at::Tensor& dh, at::Tensor& dgated, at::Tensor& h,
                         Gate gate);

// What is done to the heads of packed queries, keys and values: the first `turned` of them are turned by cos
// and sin (N, width / 2), float32; undefined: they are not. Before, RMS norms: of the first `queries` with
// one weight (width), of the other turned ones with the other; undefined: none.
struct Heads {
  int64_t width, queries, turned;
  at::Tensor cos = {}, sin = {};
  at::Tensor query_weight = {}, key_weight = {};
  double eps = 0;
};
bool has_head_kernels_for(const at::Tensor& x, const Heads& heads);
// x (N, C) -> y, which may be x. Without norms: `back` turns the other way, as gradients are.
void turn_heads(const at::Tensor& x, at::Tensor& y, const Heads& heads, bool back = false);
// dx, and the gradients of both weights, float32; undefined where there is none or it is not needed.
struct HeadGradients {
  at::Tensor dx, query_weight, key_weight;
};
HeadGradients turn_heads_backward(const at::Tensor& dy, const at::Tensor& x, const Heads& heads,
                                  bool need_weights);

// The backward pass of layer norm or, where `mean` has no elements, of RMS norm. mean, rstd: float32. dx,
// residual: (N, C) or undefined: not wanted, none. Returns the gradients of weight and bias: (C), float32,
// undefined where they are not needed.
std::pair<at::Tensor, at::Tensor> layer_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                      const at::Tensor& weight, const at::Tensor& mean,
                                                      const at::Tensor& rstd, const at::Tensor& residual,
                                                      const at::Tensor& dx, bool need_parameters);

}  // namespace pipeline::transformer::cuda
