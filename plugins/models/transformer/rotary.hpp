#pragma once

#include <ATen/core/Tensor.h>

namespace pipeline::transformer {

// Rotary position embedding (Su et al., "RoFormer", arXiv:2104.09864): the pair (x[i], x[i + D/2]) of a
// head's D channels is turned by the angle position * frequency[i], so that a product of a query and a key
// depends on how far they are apart. Which channels make a pair is the convention of Hugging Face
// ("rotate_half").

// (D / 2) fp32: base^(-2i / D).
at::Tensor rotary_frequencies(int64_t head_width, double base = 10000);

// Made once for a batch and used by every layer.
struct Rotation {
  at::Tensor cos, sin;  // (N, D / 2) fp32
};
// positions: (N) int64; frequencies: (D / 2), or of each row, (N, D / 2). `magnitude`: of cosines and sines.
Rotation rotation(const at::Tensor& positions, const at::Tensor& frequencies, double magnitude = 1);

// Turns the first `width` columns of x (N, W), heads of D channels one after another; the others stay as they
// are. x is written in place, so nothing before it may need its values in the backward pass: it is the fresh
// output of norm_linear(). Differentiable.
at::Tensor rotate_(const at::Tensor& x, int64_t width, const Rotation& by);

}  // namespace pipeline::transformer
