#include "core/train/trial_steps.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {

TrialSteps::TrialSteps(Session& session) : session_(session), loss_scale_(loss_scale_options(session)) {}

TrialStep TrialSteps::run(std::span<const std::vector<uint64_t>> micro_batches, uint64_t epoch,
                          double learning_rate, const std::function<void()>& after_micro_batch) {
  plugins::Task& task = session_.task();
  plugins::Strategy& strategy = session_.strategy();
  std::vector<plugins::Batch> batches;
  double weight = 0;
  TrialStep result;
  result.flops = 0;
  const uint64_t before = launch::host_memory();
  for (const std::vector<uint64_t>& ids : micro_batches) {
    batches.push_back(
        task.load({.split = PL_SPLIT_TRAIN, .purpose = PL_PURPOSE_TRAIN, .ids = ids, .epoch = epoch}));
    weight += batches.back().weight();
    const std::optional<double> flops = task.flops(batches.back());
    result.flops = result.flops && flops ? std::optional(*result.flops + *flops) : std::nullopt;
  }
  result.loaded_bytes = std::max(before, launch::host_memory()) - before;
  const double began = now_seconds();
  strategy.begin_step(batches.size());
  for (size_t m = 0; m < batches.size(); ++m) {
    if (session_.args().cancelled && session_.args().cancelled())
      throw Error(PL_ERROR_CANCELLED, "stopped between two micro-batches");
    train_micro_batch(session_, batches[m], {.step = step_, .index = m}, weight, loss_scale_);
    if (after_micro_batch) after_micro_batch();
  }
  result.pass_seconds = now_seconds() - began;
  const pl_step_report report =
      strategy.collect(strategy.step(step_args(session_, learning_rate, loss_scale_)));
  result.seconds = now_seconds() - began;
  result.loss = observe::without_sign_if_nan(weight > 0 ? report.loss_sum / weight : 0);
  result.finite = report.finite != 0;
  loss_scale_.update(result.finite);
  session_.take_metrics();
  session_.read_metrics(session_.take_late_metrics());
  ++step_;
  return result;
}

}  // namespace pipeline::train
