#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/forms.hpp"

namespace pipeline::transformer {

// The gated unit of Shazeer (arXiv:2002.05202): h = gate(g) u. `gated`: (N, 2 inner), columns of g first ->
// (N, inner). Differentiable.
at::Tensor gated_unit(const at::Tensor& gated, Gate gate);

// The same, not recorded by autograd: the blocks use it inside their own Functions.
at::Tensor gated_unit_of(const at::Tensor& gated, Gate gate);

// h, and the gradient of `gated` from that of h. On the CPU's fast path h takes the memory of dh; elsewhere
// it is computed only where wanted.
struct GatedAgain {
  at::Tensor h, dgated;
};
GatedAgain gated_unit_again_and_backward(const at::Tensor& gated, const at::Tensor& dh, Gate gate,
                                         bool need_h);

}  // namespace pipeline::transformer
