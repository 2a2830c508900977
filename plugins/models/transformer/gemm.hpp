#pragma once

#include <ATen/core/Tensor.h>

#include "coded.hpp"
#include "gelu.hpp"

namespace pipeline::transformer {

struct GemmOptions {
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;  // c += instead of c =
  double factor = 1;        // of the product; another one than 1 without bias, addend and gelu
  at::Tensor bias = {};     // (n), added to every row
  at::Tensor addend = {};   // (m, n), contiguous
  at::Tensor gelu = {};     // (m, n), contiguous; receives gelu(c)
  Gelu gelu_form = Gelu::kTanh;
};

// Whether gemm() takes b as it is where a is of `type`: in bfloat16 beside float32 on the CPU, whose kernel
// widens what it packs, or in 8 or 4 bits. The bits are those of b in float32.
inline bool is_widened(const at::Tensor& b, at::ScalarType type) {
  return is_coded(b) || (b.is_cpu() && b.scalar_type() == at::kBFloat16 && type == at::kFloat);
}
// `weight` as the b of a product in `type`.
inline at::Tensor as_factor(const at::Tensor& weight, at::ScalarType type) {
  return is_widened(weight, type) ? weight : weight.to(type);
}

// c (m, n) = op(a) op(b) [+ bias] [+ addend]; 2-D, rows may be further apart than their width. Not recorded
// by autograd. c may be float32 where a and b are narrower and neither bias, addend nor gelu is asked
// for, so that many products add up without rounding. On the CPU in fp32 the bits of an element depend on its
// row, its column and k alone: not on threads, not on m.
void gemm_out(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, const GemmOptions& options = {});
at::Tensor gemm(const at::Tensor& a, const at::Tensor& b, const GemmOptions& options = {});

// What many terms of this type add up in: float32 for narrower ones.
at::ScalarType wide(at::ScalarType type);

// Sums over rows: (n), wide.
at::Tensor column_sum(const at::Tensor& x);

// The sum of all elements, added in `type`: on the CPU the same bits on any number of threads, among which
// LibTorch divides longer sums.
at::Tensor total(const at::Tensor& x, at::ScalarType type);

// The pieces that the blocks' backward passes are made of, for y = x W + b with W (in, out). Gradients of
// weights and biases are wide on a device, whatever the parameter's own type: the strategy takes them so.

// Where the gradient of `weight` adds up, if there is such a place; a backward pass that adds to it returns
// an undefined gradient. Autograd would add a gradient of its own to it.
inline at::Tensor gradient_so_far(const at::Tensor& weight) {
  return weight.is_leaf() ? weight.grad() : at::Tensor();
}

// dW (in, out) = x^T dy; undefined when not needed, or added to gradient_so_far().
at::Tensor weight_gradient(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& weight, bool needed);

inline at::Tensor bias_gradient(const at::Tensor& dy, bool needed) {
  return needed ? column_sum(dy) : at::Tensor();
}

// dx (N, in) = dy W^T
inline at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return gemm(dy, as_factor(weight, dy.scalar_type()), {.b_transposed = true});
}

}  // namespace pipeline::transformer
