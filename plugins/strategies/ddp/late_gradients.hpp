#pragma once

#include <ATen/ATen.h>

#include <vector>

#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>

#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Adds to `sums` what came on any rank after a gradient had been sent; both by slot. `late`: this rank's
// part, undefined where there is none. Only those rows of kChunk elements travel in which some rank has
// anything. All ranks must call it.
void add_late_gradients(const Context& context, const Communicator& group, const Layout& layout,
                        const std::vector<at::Tensor>& late, std::vector<at::Tensor>& sums);

}  // namespace pipeline::strategies
