#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>
#include <pipeline/torch/tensor.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Sums over all micro-batches of a step, of all ranks.
struct StepSums {
  GradientRuns gradients;  // one run per slot
  at::Tensor loss;         // a scalar in double, on the device
};

// Receives the gradients of a step's micro-batches.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
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
class Reduction : public GradientSink {
 public:
  virtual void end_micro_batch(at::Tensor loss) = 0;  // undefined: this rank had no micro-batch
  virtual StepSums finish() = 0;
};

// For one process, which runs all micro-batches.
class LocalReduction : public Reduction {
 public:
  LocalReduction(std::shared_ptr<const Layout> layout, at::Device device, bool fixed_tree,
                 uint64_t micro_batches);
  void begin(uint64_t micro_batches) override;
  void add(size_t slot, const at::Tensor& gradient, bool owned) override;
  void end_micro_batch(at::Tensor loss) override;
  StepSums finish() override;
  void memory(const MemoryVisitor& visit) const override;

 private:
  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  uint64_t copies_;  // of the gradients, at most
  GradientSum gradients_;
  LossTree loss_ = make_loss_tree();
};

}  // namespace pipeline::strategies
