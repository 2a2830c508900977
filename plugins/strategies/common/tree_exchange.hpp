#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <vector>

#include <pipeline/communicator.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"

namespace pipeline::strategies {

// Cuts [begin, end) of the arena into one part per rank: rank r has [cuts[r], cuts[r + 1]). Cuts are
// multiples of kChunk and as even as that allows.
std::vector<int64_t> even_cuts(int64_t begin, int64_t end, int32_t ranks);

// Sums along the one tree over the micro-batches of all ranks. Each rank has added up an equally large
// block of them (SumTree::take_nodes). Each rank receives every other rank's nodes for its own part of the
// arena and adds them there, so no rank holds all of anything, and the bits are those of one rank with all
// micro-batches. A gradient that a node lacks is sent as -0, which changes no bit of a sum.
class TreeExchange {
 public:
  // `micro_batches`: per rank. `nodes` and what it holds must outlive this object.
  TreeExchange(const Communicator& group, const Layout& layout, const std::vector<GradientSum::Node>& nodes,
               uint64_t micro_batches, at::Device device);

  // The exchange of one range, in progress.
  struct Flight {
    at::Tensor sent, received;
    int64_t count;  // elements of this rank's part
    Communicator::Work work;
  };
  Flight start(const std::vector<int64_t>& cuts) const;
  // Waits. Returns the flat sum, from cuts[rank] on; its values between slots and where no rank had a
  // gradient are unspecified.
  at::Tensor sum(Flight flight) const;

  // By slot: 1 if any rank had a gradient.
  std::vector<uint8_t> used_slots(const Context& context) const;

 private:
  const Communicator& group_;
  const Layout& layout_;
  const std::vector<GradientSum::Node>& nodes_;
  uint64_t micro_batches_;
  at::TensorOptions options_;
};

// The same for the losses: returns the sum over all ranks, on every rank.
at::Tensor sum_losses(const Communicator& group, std::vector<LossTree::Entry> nodes, uint64_t micro_batches,
                      at::Device device);

}  // namespace pipeline::strategies
