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
#include "plugins/strategies/common/value_arena.hpp"

namespace pipeline::strategies {

// The whole model and the whole optimizer state on this rank's device: one flat arena of weights that the
// task is bound to, float32 master weights in addition if the task computes in a narrower dtype, and the
// moments. If the run does not train there are only weights.
class Replica {
 public:
  Replica(const Context& context, const std::vector<Parameter>& parameters,
          const std::vector<OptimizerRule>& optimizers);

  const std::shared_ptr<const Layout>& layout() const { return layout_; }
  at::Device device() const { return device_; }
  // What the task is bound to, borrowed from this object. Gradients must be handed over: the first one is
  // then kept without a copy.
  struct Storage {
    pl_tensor value;
    pl_tensor grad;
  };
  Storage storage(uint64_t index);

  // Updates once with the gradient sums, one run per slot. A slot without a run has a zero gradient.
  void update(const GradientRuns& runs, double learning_rate, const GradientScale& scale);

  void swap_average();

  void load(const StateReader& reader);
  std::unique_ptr<Snapshot> snapshot(uint32_t mode) const;
  // Everything that load() fills, to send to another rank: in a fixed order, one-dimensional. After
  // changing these, call publish() so that the task sees it.
  std::vector<at::Tensor> tensors() const;
  void publish();  // master weights -> what the task is bound to

  void visit_parameters(const MemoryVisitor& visit) const;
  void visit_optimizer(const MemoryVisitor& visit) const;
  uint64_t trainable_bytes() const;  // in float32
  pl_dtype optimizer_dtype() const { return optimizer_->state_dtype(); }

 private:
  bool has_masters() const { return values_.dtype() != at::kFloat; }
  std::vector<ArenaPart> frozen() const;
  void update_tensors(const Group& group, const GradientRuns& runs, double learning_rate,
                      const GradientScale& scale);

  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  ValueArena values_;  // that the task is bound to
  at::Tensor master_;  // its trainable part in float32; the same memory if that is the dtype
  std::vector<TensorView> views_;
  std::unique_ptr<Optimizer> optimizer_;
  ArenaState state_;
};

// Ends a step when every rank holds all sums: norm, clipping or skipping, update, report. Returns the
// report's ticket. fixed_order: computes the norm in a fixed order, not in the device's fastest.
uint64_t finish_step(Replica& replica, const StepSums& sums, const pl_step_args& args, bool fixed_order,
                     ReportQueue& reports);

}  // namespace pipeline::strategies
