#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include <pipeline/communicator.hpp>
#include <pipeline/context.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"

namespace pipeline::strategies {

// Where [begin, end) of the arena is cut into a part a rank: rank r has [cuts[r], cuts[r + 1]), multiples of
// kChunk and as even as those allow.
std::vector<int64_t> even_cuts(int64_t begin, int64_t end, int32_t ranks);

// Sums along the one tree over the micro-batches of all ranks, where each rank has added up a block of as
// many of them (SumTree::take_nodes). Each rank gets every other's nodes for its own part of the arena and
// adds them there, so no rank holds all of anything, and the bits are those of one rank with all
// micro-batches. What a node lacks travels as -0, which changes no bit of what it is added to.
class TreeExchange {
 public:
  // `micro_batches`: of each rank. `nodes` and what it holds must outlive this object.
  TreeExchange(const Communicator& group, const Layout& layout, const std::vector<GradientSum::Node>& nodes,
               uint64_t micro_batches, at::Device device);

  // The exchange of one range, under way.
  struct Flight {
    at::Tensor sent, received;
    int64_t count;  // elements of this rank's part
    Communicator::Work work;
  };
  Flight start(const std::vector<int64_t>& cuts) const;
  // Waits. The sum is flat, from cuts[rank] on; between slots and where no rank had a gradient: anything.
  at::Tensor sum(Flight flight) const;

  // A byte for each slot: 1 where any rank had a gradient.
  std::vector<uint8_t> used_slots(const Context& context) const;

 private:
  const Communicator& group_;
  const Layout& layout_;
  const std::vector<GradientSum::Node>& nodes_;
  uint64_t micro_batches_;
  at::TensorOptions options_;
};

// Sums the losses over all ranks along the tree, on every rank.
at::Tensor sum_losses(const Communicator& group, const std::vector<LossTree::Entry>& nodes,
                      uint64_t micro_batches, at::Device device);

}  // namespace pipeline::strategies
