#pragma once

#include <memory>

#include <pipeline/communicator.hpp>

#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/common/tree_exchange.hpp"

namespace pipeline::strategies {

// The way of reproducible mode: each rank adds its block of micro-batches along the fixed tree, and after the
// backward pass the ranks finish the tree together, a range of the arena at a time and each a part of it.
// Same bits as in one process.
class TreeReduction : public Reduction {
 public:
  // `range`: elements exchanged at once. `micro_batches`: of a step, on each rank.
  TreeReduction(const Context& context, const Communicator& group, std::shared_ptr<const Layout> layout,
                at::Device device, int64_t range, uint64_t micro_batches);
  void begin(uint64_t micro_batches) override;
  void add(size_t slot, const at::Tensor& gradient, bool owned) override;
  void end_micro_batch(at::Tensor loss) override;
  StepSums finish() override;
  void memory(const MemoryVisitor& visit) const override;

 private:
  at::Tensor sum_all(const TreeExchange& exchange) const;

  const Context context_;
  const Communicator& group_;
  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  int64_t range_;
  uint64_t planned_;  // micro-batches of a step
  uint64_t micro_batches_ = 0;
  GradientSum gradients_;
  LossTree loss_ = make_loss_tree();
};

}  // namespace pipeline::strategies
