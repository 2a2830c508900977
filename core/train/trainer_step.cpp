// One step of training: what its micro-batches are, forward and backward, the update.
#include <utility>

#include <fmt/format.h>

#include "core/base/monotonic_clock.hpp"
#include "core/train/trainer.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {

// A micro-batch that is not empty, for a rank that has none.
std::pair<plugins::Batch, MicroBatchPlace> Trainer::first_of_step() {
  const std::vector<uint64_t> ids = sampler_.micro_batch(state_.step, 0);
  return {session_.task().load({.split = PL_SPLIT_TRAIN,
                                .purpose = PL_PURPOSE_TRAIN,
                                .ids = ids,
                                .epoch = sampler_.epoch_of(state_.step)}),
          MicroBatchPlace{.step = state_.step, .index = 0}};
}

// Where the task's loss needs them.
std::optional<GlobalOutputs> Trainer::global_outputs(std::span<const plugins::Batch> batches,
                                                     const StepFacts& facts) {
  const uint64_t micro_batches = session_.plan().micro_batches, step = state_.step;
  if (!GlobalOutputs::are_wanted(session_, micro_batches)) return std::nullopt;
  std::vector<MicroBatchPlace> places;
  for (const std::optional<uint64_t> m : my_micro_batches_)
    places.push_back({.step = step, .index = m.value_or(0)});
  std::optional<GlobalOutputs> outputs(std::in_place, session_, batches, places,
                                       RowsOfStep(facts.samples, micro_batches),
                                       [this] { return first_of_step(); });
  if (profile_) lap(Cost::compute, "outputs of the global batch");
  return outputs;
}

void Trainer::train_step() {
  const uint64_t step = state_.step;
  at("data.load", fmt::format("waiting for the data of step {}", step + 1));
  if (profile_) profile_->before_step(step + 1);
  const double began = now_seconds();
  reports_.next_step_begins(began);

  std::vector<plugins::Batch> batches;
  for (size_t i = 0; i < my_micro_batches_.size(); ++i) batches.push_back(std::move(*batches_->next()));
  lap(Cost::data);
  TakenStep now;
  now.began = began;
  now.data_wait = now_seconds() - began;
  StepRecord& record = now.record;
  record.step = step + 1;
  record.learning_rate = schedule_.at(step);
  record.loss_scale = state_.loss_scale.value();
  record.samples = sampler_.samples_in(step);
  record.epoch = static_cast<double>(step + 1) / static_cast<double>(sampler_.steps_per_epoch());
  at("training", fmt::format("training step {}", step + 1));
  std::vector<MicroBatchFacts> mine;
  for (size_t i = 0; i < batches.size(); ++i)
    if (batches[i])
      mine.push_back({.index = *my_micro_batches_[i],
                      .weight = batches[i].weight(),
                      .samples = batches[i].ids().size(),
                      .tokens = batches[i].info().tokens,
                      .positions = batches[i].info().positions,
                      .flops = session_.task().flops(batches[i])});
  const StepFacts facts = sum_over_ranks(processes_, mine);
  lap(Cost::ranks);
  now.weight = facts.weight;
  if (facts.weight <= 0 && !std::exchange(told_of_no_weight_, true))
    log_.warning(fmt::format(
        "step {}: the weights of its samples, such as their target tokens, add up to 0: it trains nothing",
        step + 1));
  record.tokens = facts.tokens;
  record.positions = facts.positions;
  record.flops = facts.flops;

  plugins::Strategy& strategy = session_.strategy();
  forecast_.before_step(step);
  strategy.begin_step(batches.size());
  const std::optional<GlobalOutputs> outputs = global_outputs(batches, facts);
  for (size_t i = 0; i < batches.size(); ++i) {
    const bool is_first = !std::exchange(has_gone_through_units_, true);
    if (!batches[i]) {
      if (is_first && strategy.has_unit_hooks() && session_.task().has_unit_hooks()) {
        const auto [batch, place] = first_of_step();
        go_through_units(session_, batch, place, outputs ? &*outputs : nullptr);
      }
      strategy.end_micro_batch(nullptr);
      continue;
    }
    train_micro_batch(session_, batches[i], {.step = step, .index = *my_micro_batches_[i]}, now.weight,
                      state_.loss_scale, outputs ? &*outputs : nullptr);
    forecast_.after_micro_batch();
    if (profile_) lap(Cost::compute, fmt::format("forward and backward {} of {}", i + 1, batches.size()));
  }
  forecast_.after_step();
  lap(Cost::compute);
  now.ticket = strategy.step(step_args(session_, record.learning_rate, state_.loss_scale));
  now.late = session_.take_late_metrics();
  lap(Cost::optimizer);

  // By now the report of the step before is there, so nobody waits for the device.
  reports_.take(std::move(now), state_.loss_scale);
  lap(Cost::device);
  ++state_.step;
  const uint64_t empty_every = options_.observe.empty_cache_every;
  const pl_device device = session_.run_info().device;
  if (empty_every > 0 && state_.step % empty_every == 0 && device.type != PL_DEVICE_CPU)
    give_back_unused(session_);
  if (profile_) profile_->after_step(step + 1);
}

}  // namespace pipeline::train
