// How the gradients of all ranks are added up.
#pragma once

#include <memory>

#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/ddp/buckets.hpp"

namespace pipeline::strategies {

// In buckets, which travel while the backward pass of the last micro-batch goes on. `wire`: the dtype there.
std::unique_ptr<Reduction> bucket_reduction(const Context& context, const Communicator& group,
                                            std::shared_ptr<const Layout> layout, at::Device device,
                                            const BucketSizes& sizes, at::ScalarType wire, bool overlap);

// Along the fixed tree, after the backward pass. `range`: elements exchanged at once. `micro_batches`: of a
// step, on each rank.
std::unique_ptr<Reduction> tree_reduction(const Context& context, const Communicator& group,
                                          std::shared_ptr<const Layout> layout, at::Device device,
                                          int64_t range, uint64_t micro_batches);

}  // namespace pipeline::strategies
