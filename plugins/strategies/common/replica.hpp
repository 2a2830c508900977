#pragma once

#include <pipeline.h>

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <pipeline/context.hpp>
#include <pipeline/parameter.hpp>
#include <pipeline/state.hpp>
#include <pipeline/strategy.hpp>
#include <pipeline/tensor.hpp>
#include <pipeline/torch/runtime.hpp>

#include "plugins/strategies/common/arena.hpp"
#include "plugins/strategies/common/extensions.hpp"
#include "plugins/strategies/common/gradient_sum.hpp"
#include "plugins/strategies/common/layout.hpp"
#include "plugins/strategies/common/optimizer.hpp"
#include "plugins/strategies/common/step.hpp"

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
  // What the task is bound to, borrowed from this object.
  pl_tensor value(uint64_t index) { return views_[index].get(); }

  // Updates once with the gradient sums, one run per slot. A slot without a run has a zero gradient.
  void update(const GradientRuns& runs, double learning_rate, const LossScales& scales);

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
  bool update_tensors(const Group& group, const GradientRuns& runs, double learning_rate,
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

// The common part of strategies that keep the whole model on every rank: a Replica of it, and a Reduction
// that adds up gradients. The derived class chooses the reduction in its constructor.
template <class Config>
class Replicated : public Strategy<Config> {
 public:
  using typename Strategy<Config>::Setup;
  using typename Strategy<Config>::Storage;

  static const void* query(std::string_view extension) { return extension_named(extension); }

  pl_strategy_info info() override {
    auto info = sized<pl_strategy_info>();
    info.flags = PL_STRATEGY_SAVES_TRAINED | PL_STRATEGY_TAKES_LOSSES;
    info.micro_batch_order = PL_ORDER_BLOCK;
    if (reduction_->takes_rows()) info.flags |= PL_STRATEGY_TAKES_ROWS;
    info.gradient_dtype = info.reduction_dtype = info.master_dtype = kFloat32;
    info.optimizer_dtype = replica_.optimizer_dtype();
    return info;
  }

  Storage storage(uint64_t index) override {
    const pl_tensor value = replica_.value(index);
    pl_tensor grad = value;
    grad.data = reduction_->bound_gradient(index);  // null: handed over, and the first is kept without a copy
    if (grad.data != nullptr) grad.dtype = kFloat32;
    return {value, grad};
  }

  void begin_step(uint64_t micro_batches) override {
    progress_.begin(micro_batches);
    const at::NoGradGuard no_grad;
    reduction_->begin(micro_batches);
  }

  void gradient_ready(Gradient gradient) override {
    const auto slot = slot_of(gradient, this->parameters(), *replica_.layout(), this->run().device);
    progress_.require_micro_batch(this->parameters()[gradient.index()].name);
    if (!slot) return;
    const at::NoGradGuard no_grad;
    const RunStreamScope stream(this->run(), gradient.stream());
    reduction_->take(*slot, gradient);
  }

  void end_micro_batch(const pl_tensor* loss) override {
    progress_.end_micro_batch();
    const at::NoGradGuard no_grad;
    reduction_->end_micro_batch(keep_loss(loss));
  }

  uint64_t step(const pl_step_args& args) override {
    progress_.finish();
    const at::NoGradGuard no_grad;
    return finish_step(replica_, reduction_->finish(), args, this->context().reproducible(), reports_);
  }

  pl_step_report collect(uint64_t ticket) override { return reports_.collect(ticket); }

  void swap_average() override {
    const at::NoGradGuard no_grad;
    replica_.swap_average();
  }

  void load_state(const StateReader& reader) override {
    const at::NoGradGuard no_grad;
    replica_.load(reader);
  }

  std::unique_ptr<Snapshot> snapshot(uint32_t mode) override {
    const at::NoGradGuard no_grad;
    return replica_.snapshot(mode);
  }

  void memory(const MemoryVisitor& visit) override {
    replica_.visit_parameters(visit);
    reduction_->memory(visit);
    replica_.visit_optimizer(visit);
  }

 protected:
  explicit Replicated(Setup setup)
      : Strategy<Config>(std::move(setup)),
        replica_(this->context(), this->parameters(), this->optimizers()) {}

  Replica replica_;
  std::unique_ptr<Reduction> reduction_;

 private:
  ReportQueue reports_;
  StepProgress progress_;
};

}  // namespace pipeline::strategies
