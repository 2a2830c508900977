#pragma once

#include <memory>
#include <utility>

#include <pipeline/strategy.hpp>
#include <pipeline/torch/runtime.hpp>

#include <ATen/core/grad_mode.h>

#include "plugins/strategies/common/extensions.hpp"
#include "plugins/strategies/common/gradient_check.hpp"
#include "plugins/strategies/common/reduction.hpp"
#include "plugins/strategies/common/replica.hpp"
#include "plugins/strategies/common/report_queue.hpp"

namespace pipeline::strategies {

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
    info.micro_batch_order = PL_ORDER_BLOCK;
    if (reduction_->takes_rows()) info.flags |= PL_STRATEGY_TAKES_ROWS;
    info.gradient_dtype = info.reduction_dtype = info.master_dtype = kFloat32;
    info.optimizer_dtype = replica_.optimizer_dtype();
    return info;
  }

  Storage storage(uint64_t index) override {
    const auto [value, grad] = replica_.storage(index);
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
