#include "plugins/strategies/single/single.hpp"

#include <pipeline/torch/runtime.hpp>

#include "plugins/strategies/common/adopt.hpp"
#include "plugins/strategies/common/gradient_check.hpp"
#include "plugins/strategies/common/peak_flops.hpp"
#include "plugins/strategies/common/replica_step.hpp"

namespace pipeline::strategies {
namespace {

const Context& require_one_process(const Context& context) {
  if (const int32_t ranks = context.run().world_size; ranks > 1) {
    fail_with(PL_ERROR_CONFIG, "works with one process, this run has ", ranks,
              ": use strategy.plugin = \"ddp\" (or \"auto\"), or launch.processes = 1");
  }
  return context;
}

}  // namespace

const void* Single::query(std::string_view extension) {
  return extension == PL_EXTENSION_PEAK_FLOPS ? peak_flops_extension() : nullptr;
}

Single::Single(Setup setup)
    : Strategy(std::move(setup)),
      replica_(require_one_process(context()), parameters(), optimizer()),
      reduction_(replica_.layout(), replica_.device(), context().reproducible(), run().micro_batches) {}

pl_strategy_info Single::info() {
  auto info = sized<pl_strategy_info>();
  info.micro_batch_order = PL_ORDER_BLOCK;
  info.gradient_dtype = info.reduction_dtype = info.master_dtype = info.optimizer_dtype = kFloat32;
  return info;
}

Single::Storage Single::storage(uint64_t index) {
  const auto [value, grad] = replica_.storage(index);
  return {value, grad};
}

void Single::begin_step(uint64_t micro_batches) {
  progress_.begin(micro_batches);
  reduction_.begin(micro_batches);
}

void Single::gradient_ready(Gradient gradient) {
  const auto slot = slot_of(gradient, parameters(), *replica_.layout(), run().device);
  progress_.require_micro_batch(parameters()[gradient.index()].name);
  if (!slot) return;
  const at::NoGradGuard no_grad;
  const StreamScope stream(replica_.device(), gradient.stream());
  const bool owned = gradient.is_handed_over();
  reduction_.add(*slot, owned ? adopt(gradient) : to_torch(gradient.tensor()), owned, gradient.stream());
}

void Single::end_micro_batch(const pl_tensor* loss) {
  progress_.end_micro_batch();
  const at::NoGradGuard no_grad;
  reduction_.end_micro_batch(keep_loss(loss));
}

uint64_t Single::step(const pl_step_args& args) {
  progress_.finish();
  const at::NoGradGuard no_grad;
  const StreamScope stream(replica_.device(), args.stream);
  return finish_step(replica_, reduction_.finish(args.stream), args, context().reproducible(), reports_);
}

pl_step_report Single::collect(uint64_t ticket) { return reports_.collect(ticket); }

void Single::load_state(const StateReader& reader) {
  const at::NoGradGuard no_grad;
  replica_.load(reader);
}

std::unique_ptr<Snapshot> Single::snapshot(uint32_t mode) {
  const at::NoGradGuard no_grad;
  return replica_.snapshot(mode);
}

void Single::memory(const MemoryVisitor& visit) {
  replica_.visit_parameters(visit);
  reduction_.memory(visit);
  replica_.visit_optimizer(visit);
}

}  // namespace pipeline::strategies
