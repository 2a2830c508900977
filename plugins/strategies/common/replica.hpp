#pragma once

#include <pipeline.h>
#include <pipeline/context.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>
#include <pipeline/tensor.hpp>

#include <memory>
#include <vector>

#include "plugins/strategies/common/arena_state.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/optimizer.hpp"
#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/common/report_queue.hpp"

namespace pipeline::strategies {

// The whole model and the optimizer's whole state on this rank's device: one flat arena of weights that the
// task is bound to, float32 master weights besides where the task computes in a narrower dtype, and the
// moments. Where the run does not train there is nothing but weights.
class Replica {
 public:
  Replica(const Context& context, const std::vector<Parameter>& parameters,
          const std::vector<OptimizerRule>& optimizers);

  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  at::Device device() const { return device_; }
  // What the task is bound to, borrowed from this object. Gradients are to be handed over: the first one is
  // then kept without a copy.
  struct Storage {
    pl_tensor value;
    pl_tensor grad;
  };
  Storage storage(uint64_t index);

  // One update with the sums of the gradients, each run a slot's. A slot without one has a gradient of zero.
  void update(const GradientRuns& runs, double learning_rate, const GradientScale& scale);

  void load(const StateReader& reader);
  std::unique_ptr<Snapshot> snapshot(uint32_t mode) const;
  // Everything that load() fills, to be sent to another rank: in a fixed order, one-dimensional. Changes show
  // in what the task is bound to after publish().
  std::vector<at::Tensor> tensors() const;
  void publish();  // master weights -> what the task is bound to

  void visit_parameters(const MemoryVisitor& visit) const;
  void visit_optimizer(const MemoryVisitor& visit) const;
  uint64_t trainable_bytes() const;  // in float32

 private:
  bool has_masters() const { return values_.scalar_type() != at::kFloat; }
  ArenaPart frozen() const;
  std::vector<ArenaPart> optimizer_parts() const;

  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  at::Tensor values_;  // the arena, in the parameters' dtype
  at::Tensor master_;  // its trainable part in float32; the same memory where that is the dtype
  std::vector<TensorView> views_;
  std::unique_ptr<Optimizer> optimizer_;
  ArenaState state_;
};

// The end of a step where every rank holds all sums: norm, clipping or skipping, update, report. Returns the
// report's ticket. fixed_order: the norm's bits must not depend on the device's fastest order.
uint64_t finish_step(Replica& replica, const StepSums& sums, const pl_step_args& args, bool fixed_order,
                     ReportQueue& reports);

}  // namespace pipeline::strategies
