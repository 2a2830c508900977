// Reductions in the order of the ranks: the same bits on every rank and in every run.
#pragma once

#include <pipeline/backend.hpp>

#include <span>

namespace pipeline::backends {

// Elements reduced at a time: a block's sums stay in the first-level cache while the inputs stream past.
constexpr uint64_t kReduceBlock = 2048;

bool can_reduce(pl_dtype dtype);

// out[i] = ((inputs[0][i] op inputs[1][i]) op inputs[2][i]) ..., for `count` elements. Half precisions are
// added in float32 and rounded once; integers wrap around; NaN stays NaN in minimum and maximum; a sum of
// booleans is "any". `out` may be one of the inputs. REQUIRES: can_reduce() for the dtype. [any-thread]
void reduce_in_order(void* out, std::span<const void* const> inputs, uint64_t count, pl_dtype dtype,
                     uint32_t reduce);

}  // namespace pipeline::backends
