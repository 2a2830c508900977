#pragma once

#include <ATen/ATen.h>

#include <vector>

#include <pipeline/communicator.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Adds to `sums` what came on any rank after a gradient had been sent; all by slot. `is_late`: 1 where any
// rank has something, the same on all. `late`: this rank's part, undefined where there is none. Only those
// rows of kChunk elements travel in which some rank has anything. All ranks must call it.
void add_late_gradients(const Communicator& group, const std::vector<uint8_t>& is_late,
                        const std::vector<at::Tensor>& late, std::vector<at::Tensor>& sums);

}  // namespace pipeline::strategies
