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

// By loss: in_order_sum() of its chunks, of `sums` of the whole arena. One-dimensional.
at::Tensor squares_by_loss(const at::Tensor& sums, const Layout& layout);

// The sum of squares of all elements as a scalar in double, in whatever order is fastest.
at::Tensor sum_of_squares(const GradientRuns& runs, at::Device device);

// What the norms of a step's gradients mean for its update. Each loss is clipped by its own.
struct Verdict {
  at::Tensor grad_norm;  // of all that have a turn, after inverse_scale, before clipping; scalars in double,
                         // on the device
  at::Tensor finite;     // 1 or 0
  LossScales scales;     // undo the loss scale and clip
  bool skip = false;     // already known on the host: do not update
};

// `squares`: sums of squares by loss. Does not wait for the device: there the update itself checks found_inf.
Verdict judge(const at::Tensor& squares, const pl_step_args& args);

}  // namespace pipeline::strategies
