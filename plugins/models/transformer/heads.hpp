#pragma once

#include <ATen/core/Tensor.h>

#include "blocks.hpp"
#include "rotary.hpp"

namespace pipeline::transformer {

// Columns first .. first + count - 1 are heads, each as wide as the norm's weight (D); count 0: none.
struct NormedHeads {
  int64_t first = 0, count = 0;
  Norm norm = {};  // without a bias
};

// x (N, C) with a norm over each head of some columns, as Qwen3 has of queries and keys, or over all of them
// together, as ESM C; the others as they are. Differentiable.
at::Tensor norm_heads(const at::Tensor& x, const NormedHeads& queries, const NormedHeads& keys);

// What attention takes: norm_heads(), where there are norms, and then those heads turned, which are the first
// columns of x, unless positions are not rotary. x may be overwritten: see rotate_(). Differentiable.
at::Tensor ready_heads(const at::Tensor& x, const NormedHeads& queries, const NormedHeads& keys,
                       const Rotation& rotation);

}  // namespace pipeline::transformer
