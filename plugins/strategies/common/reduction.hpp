#pragma once

#include <ATen/ATen.h>

#include <memory>

#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>
#include <pipeline/torch/tensor.hpp>

#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"

namespace pipeline::strategies {

// Sums over all micro-batches of a step, of all ranks.
struct StepSums {
  GradientRuns gradients;  // a run a slot
  at::Tensor loss;         // a scalar in double, on the device
};

// Takes the gradients of a step's micro-batches.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // Forgets what is left of a step that was given up.
  virtual void begin(uint64_t micro_batches) = 0;
  // `owned`: the tensor's memory may be kept and written to. [serialized]
  virtual void add(size_t slot, const at::Tensor& gradient, bool owned) = 0;
  // values (K, ...) are added to rows (K) of the gradient; both lent. Only where takes_rows(). [serialized]
  virtual void add_rows(size_t /*slot*/, const at::Tensor& /*rows*/, const at::Tensor& /*values*/) {
    fail("gradients in rows are not taken here");
  }
  virtual bool takes_rows() const { return false; }
  // One of these two, as the gradient came from the task. [serialized]
  void take(size_t slot, Gradient& gradient);
  virtual void memory(const MemoryVisitor& visit) const = 0;
};

// How a step's gradients and losses become their sums, whole on every rank.
class Reduction : public GradientSink {
 public:
  virtual void end_micro_batch(at::Tensor loss) = 0;  // undefined: this rank had no micro-batch
  virtual StepSums finish() = 0;
};

// All micro-batches are this process's.
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
