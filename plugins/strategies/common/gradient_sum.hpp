#pragma once

#include <pipeline/torch/tensor.hpp>

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/sum_tree.hpp"

namespace pipeline::strategies {

// Adds up the gradients of a step's micro-batches as they are handed over, in float32. Keeps the first
// gradient of a parameter without a copy if its memory may be kept; adds the next ones to it and frees
// them.
class GradientSum {
 public:
  using Gradients = std::vector<at::Tensor>;  // by slot, padded; undefined: none
  using Node = SumTree<Gradients>::Entry;

  // fixed_tree: adds along the tree over micro-batches, for the same bits on any number of ranks; otherwise
  // in the order of arrival, which holds one gradient at a time. may_be_narrow (without the tree): take()
  // may return a single gradient in its own dtype, which saves a copy.
  GradientSum(std::shared_ptr<const Layout> layout, bool fixed_tree, bool may_be_narrow = false);

  // `owned`: the tensor's memory may be kept and written to. Of any float dtype and the parameter's element
  // count.
  void add(size_t slot, const at::Tensor& gradient, bool owned);
  // Adds `values`, (K, ...), to the rows `rows`, (K).
  void add_rows(size_t slot, const at::Tensor& rows, const at::Tensor& values);
  void end_micro_batch();

  // Returns the sums of the parameters that had a gradient. Empties this object.
  GradientRuns finish();
  // With the fixed tree, for a rank that adds a block of the leaves: takes its complete nodes.
  std::vector<Node> take_nodes() { return tree_.take_nodes(); }
  // Without the tree: takes the sum of one slot, undefined if none; later gradients start a new sum.
  at::Tensor take(size_t slot) { return std::exchange(current_[slot], {}); }
  bool has(size_t slot) const { return current_[slot].defined(); }
  void clear() { restart(0); }
  // Begins a step whose first micro-batch on this rank is leaf `first` of the tree.
  void restart(uint64_t first);

 private:
  const at::Tensor& widened(size_t slot);  // the sum so far, from now on in float32

  std::shared_ptr<const Layout> layout_;
  bool fixed_tree_;
  bool may_be_narrow_;
  Gradients current_;  // of this micro-batch; without the tree, of all
  SumTree<Gradients> tree_;
};

// Losses of micro-batches are added along the tree, too, in double; undefined: none.
using LossTree = SumTree<at::Tensor>;

inline LossTree make_loss_tree() {
  return LossTree([](at::Tensor& into, at::Tensor&& right) {
    if (!into.defined()) {
      into = std::move(right);
    } else if (right.defined()) {
      into.add_(right);
    }
  });
}

// Copies the task's loss to keep it after the call; undefined for a rank without a micro-batch.
inline at::Tensor keep_loss(const pl_tensor* loss) {
  if (loss == nullptr) return {};
  return to_torch(*loss).reshape({}).to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace pipeline::strategies
