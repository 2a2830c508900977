#pragma once

#include <ATen/ATen.h>

#include "plugins/strategies/common/gradient_run.hpp"

namespace pipeline::strategies {

// Sums of squares, in double, of each chunk of kChunk elements of the arena from `begin` to `end` (multiples
// of kChunk): a one-dimensional tensor on the gradients' device. A chunk's bits depend on its elements alone:
// not on threads, nor on how the arena is cut into runs or shards. On devices other than the CPU it takes a
// copy of the gradients.
at::Tensor chunk_sums(const GradientRuns& runs, int64_t begin, int64_t end, at::Device device);

// The chunks' sum, added in index order: a scalar.
at::Tensor in_order_sum(const at::Tensor& sums);

// The sum of squares of all elements as a scalar in double, in whatever order is fastest.
at::Tensor sum_of_squares(const GradientRuns& runs, at::Device device);

}  // namespace pipeline::strategies
