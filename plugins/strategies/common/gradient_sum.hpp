#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <pipeline/communicator.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>
#include <pipeline/torch/tensor.hpp>

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

// Sums over all micro-batches of a step, of all ranks.
struct StepSums {
  GradientRuns gradients;  // one run per slot
  at::Tensor loss;         // a scalar in double, on the device
};

// Receives the gradients of a step's micro-batches.
class GradientReceiver {
 public:
  virtual ~GradientReceiver() = default;
  // Discards what remains of an abandoned step.
  virtual void begin(uint64_t micro_batches) = 0;
  // `owned`: the tensor's memory may be kept and written to. [serialized]
  virtual void add(size_t slot, const at::Tensor& gradient, bool owned) = 0;
  // Adds `values`, (K, ...), to the rows `rows`, (K), of the gradient; borrows both. Only if takes_rows().
  // [serialized]
  virtual void add_rows(size_t /*slot*/, const at::Tensor& /*rows*/, const at::Tensor& /*values*/) {
    fail("gradients in rows are not taken here");
  }
  virtual bool takes_rows() const { return false; }
  // Calls add() or add_rows(), depending on the gradient from the task. [serialized]
  void take(size_t slot, Gradient& gradient);
  virtual void memory(const MemoryVisitor& visit) const = 0;
};

// Adds up a step's gradients and losses; every rank gets the complete sums.
class Reduction : public GradientReceiver {
 public:
  virtual void end_micro_batch(at::Tensor loss) = 0;  // undefined: this rank had no micro-batch
  virtual StepSums finish() = 0;
  // Where the task adds up the gradient of a parameter, in float32; null: it hands it over.
  virtual void* bound_gradient(size_t /*parameter*/) const { return nullptr; }
};

// For one process, which runs all micro-batches. Where they are several and their order is free, the task
// adds their gradients up itself, in memory that it is bound to: its products do so without a pass of their
// own.
class LocalReduction : public Reduction {
 public:
  LocalReduction(std::shared_ptr<const Layout> layout, at::Device device, bool fixed_tree,
                 uint64_t micro_batches);
  void begin(uint64_t micro_batches) override;
  void add(size_t slot, const at::Tensor& gradient, bool owned) override;
  void end_micro_batch(at::Tensor loss) override;
  StepSums finish() override;
  void* bound_gradient(size_t parameter) const override;
  void memory(const MemoryVisitor& visit) const override;

 private:
  at::Tensor bound_run(const Slot& slot) const { return bound_.narrow(0, slot.offset, slot.padded); }

  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  uint64_t copies_;   // of the gradients, at most
  at::Tensor bound_;  // all of them in the arena's order; undefined: they are handed over
  GradientSum gradients_;
  LossTree loss_ = make_loss_tree();
};

// Parts of gradients that arrived as rows after the rest had been sent: for an embedding that is also the
// output head, the part from the token look-ups.
class LateRows {
 public:
  // The sum for one slot: rows (U) int64, ascending and unique; values (U, width) float32; on the CPU.
  struct Sum {
    size_t slot;
    at::Tensor rows;
    at::Tensor values;

    // Adds the matching values to `elements`, the slot's flattened elements from `begin` on, which may
    // begin and end within rows.
    void add_to(const at::Tensor& elements, int64_t begin) const;
  };

  explicit LateRows(std::shared_ptr<const Layout> layout) : layout_(std::move(layout)) {}

  // Copies `values`, (K, ...) of any float dtype, to add to the rows `rows`, (K) int64; rows may repeat.
  void add(size_t slot, const at::Tensor& rows, const at::Tensor& values);
  bool empty() const { return parts_.empty(); }
  void clear() { parts_.clear(); }

  // Moves a slot's rows to `sum`, where they are no longer late.
  void move_to(GradientSum& sum, size_t slot);

  // Returns the sums over all ranks and empties this object. All ranks call it together, even those without
  // rows. Only rows to which some rank adds are sent. `group`: null for one rank.
  std::vector<Sum> finish(const Communicator* group, at::Device device);

 private:
  struct Part {
    size_t slot;
    at::Tensor rows;
    at::Tensor values;  // (K, width) float32
  };

  Sum sum_of(size_t slot, int64_t width, const Communicator* group, at::Device device) const;

  std::shared_ptr<const Layout> layout_;
  std::vector<Part> parts_;
};

}  // namespace pipeline::strategies
