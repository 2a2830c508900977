#include "core/train/trial_steps.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/observe/format.hpp"
#include "core/train/step_exchange.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {

TrialSteps::TrialSteps(Session& session) : session_(session), loss_scale_(loss_scale_options(session)) {}

// The places of this rank's micro-batches: the step is that of all ranks, as in a run.
std::vector<MicroBatchPlace> TrialSteps::places(uint64_t each) const {
  const auto world = static_cast<uint64_t>(session_.run_info().world_size),
             rank = static_cast<uint64_t>(session_.run_info().rank);
  const bool in_turns = session_.strategy().info().micro_batch_order == PL_ORDER_INTERLEAVED;
  std::vector<MicroBatchPlace> places;
  for (uint64_t i = 0; i < each; ++i)
    places.push_back({.step = step_, .index = in_turns ? i * world + rank : rank * each + i});
  return places;
}

// The outputs of all samples of the step, where the task's loss needs them.
std::optional<GlobalOutputs> TrialSteps::global_outputs(std::span<const plugins::Batch> batches,
                                                        std::span<const MicroBatchPlace> places) {
  const uint64_t all = batches.size() * static_cast<uint64_t>(session_.run_info().world_size);
  if (!GlobalOutputs::are_wanted(session_, all)) return std::nullopt;
  std::vector<MicroBatchFacts> mine;
  for (size_t i = 0; i < batches.size(); ++i)
    mine.push_back({.index = places[i].index, .samples = batches[i].ids().size(), .flops = {}});
  const StepFacts facts = sum_over_ranks(session_.processes(), mine);
  return std::optional<GlobalOutputs>(std::in_place, session_, batches, places,
                                      RowsOfStep(facts.samples, all), nullptr);
}

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
  const std::vector<MicroBatchPlace> places = this->places(batches.size());
  const std::optional<GlobalOutputs> outputs = global_outputs(batches, places);
  for (size_t m = 0; m < batches.size(); ++m) {
    if (session_.args().cancelled && session_.args().cancelled())
      throw Error(PL_ERROR_CANCELLED, "stopped between two micro-batches");
    train_micro_batch(session_, batches[m], places[m], weight, loss_scale_, outputs ? &*outputs : nullptr);
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
