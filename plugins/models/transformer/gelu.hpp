#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "kernels/forms.hpp"

namespace pipeline::transformer {

// The form that transformers calls so.
constexpr Gelu gelu_named(std::string_view name) {
  return name == "quick_gelu" ? Gelu::kQuick : name == "gelu" ? Gelu::kExact : Gelu::kTanh;
}

// Differentiable; x: (N, C).
at::Tensor gelu(const at::Tensor& x, Gelu form);

// gelu(x), and the gradient of x from that of gelu(x), by kernels of our own in the memory of dy. Not
// recorded by autograd: the blocks use it inside their own Functions.
struct GeluAgain {
  at::Tensor y, dx;
  at::Tensor dx_sum;  // over rows, as column_sum(); undefined where it is not a by-product
};
GeluAgain gelu_again_and_backward(const at::Tensor& x, const at::Tensor& dy, Gelu form);

// The form's name in ATen, which has no kQuick.
constexpr const char* torch_name(Gelu form) { return form == Gelu::kTanh ? "tanh" : "none"; }

// y = gelu(x) by LibTorch's operations: any device and dtype.
void gelu_by_torch(at::Tensor& y, const at::Tensor& x, Gelu form);

}  // namespace pipeline::transformer
