#pragma once

#include <pipeline.h>

#include <ATen/core/Tensor.h>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/optimizer.hpp"

namespace pipeline::strategies {

// Returns the sum of squares, in double, of each chunk of kChunk elements of the arena from `begin` to
// `end` (multiples of kChunk): a one-dimensional tensor on the gradients' device. A chunk's bits depend
// only on its elements, not on threads or on how the arena is cut into runs or shards.
at::Tensor chunk_sums(const GradientRuns& runs, int64_t begin, int64_t end, at::Device device);

// chunk_sums() on devices other than the CPU, in another order of summation: copies one block of chunks at a
// time in double. All blocks have the same length, so that one kernel adds up every chunk in the same way.
inline constexpr int64_t kBlockChunks = 1024;
at::Tensor chunk_sums_by_blocks(const GradientRuns& runs, int64_t begin, int64_t end, at::Device device);

// The chunks' sum, added in index order: a scalar.
at::Tensor in_order_sum(const at::Tensor& sums);

// The sum of squares of all elements as a scalar in double, in whatever order is fastest.
at::Tensor sum_of_squares(const GradientRuns& runs, at::Device device);

// What the norm of a step's gradients means for its update.
struct Verdict {
  at::Tensor grad_norm;  // after inverse_scale, before clipping; scalars in double, on the device
  at::Tensor finite;     // 1 or 0
  GradientScale scale;   // undoes the loss scale and clips
  bool skip = false;     // already known on the host: do not update
};

// Does not wait for the device: there the update itself checks found_inf.
Verdict judge(const at::Tensor& sum_of_squares, const pl_step_args& args);

}  // namespace pipeline::strategies
