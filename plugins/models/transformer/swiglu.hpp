#pragma once

#include <ATen/core/Tensor.h>

namespace pipeline::transformer {

// The gated unit of Shazeer (arXiv:2002.05202): h = silu(g) u with silu(g) = g sigmoid(g). `gated`: (N, 2
// inner), columns of g first -> (N, inner). Not recorded by autograd: the blocks use it inside their own
// Functions.
at::Tensor swiglu(const at::Tensor& gated);

// h, and the gradient of `gated` from that of h. On the fast path h takes the memory of dh; elsewhere it is
// computed only where wanted.
struct SwigluAgain {
  at::Tensor h, dgated;
};
SwigluAgain swiglu_again_and_backward(const at::Tensor& gated, const at::Tensor& dh, bool need_h);

}  // namespace pipeline::transformer
