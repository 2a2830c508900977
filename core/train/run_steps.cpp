#include "core/train/run_steps.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/monotonic_clock.hpp"
#include "core/launch/devices.hpp"
#include "core/observe/format.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kSteps = 10;  // by then an allocator has what it needs for steps of many sizes

}  // namespace

RunForecast::RunForecast(Session& session, const std::vector<std::optional<uint64_t>>& micro_batches,
                         uint64_t total_steps)
    : session_(session), total_steps_(total_steps) {
  for (const auto& m : micro_batches)
    if (m) micro_batches_.push_back(*m);
}

void RunForecast::before_step(uint64_t step) {
  if (memory_) return;
  const double largest = largest_to_come(step);
  give_back_unused(session_);  // the steps would take some of it, which would not show
  memory_.emplace(session_, copies_checkpoints(session_.config(), total_steps_), largest);
}

void RunForecast::after_micro_batch() {
  if (!is_made_) memory_->micro_batch();
}

void RunForecast::after_step() {
  if (!is_made_) is_made_ = ++steps_ == kSteps;
}

std::optional<uint64_t> RunForecast::peak() const {
  return memory_ ? std::optional(memory_->peak()) : std::nullopt;
}

// The cost of this rank's largest micro-batch to come, as far as it is looked for, in terms of the largest
// one of the steps that are measured.
double RunForecast::largest_to_come(uint64_t step) const {
  if (!session_.task().has_sample_costs()) return 1;
  Sampler sampler(session_.plan(), sampler_options(session_));  // its own: it runs far ahead of the loader's
  const auto costs = sample_costs(session_.task());
  const auto largest_until = [&](uint64_t end) {
    const auto costliest = costliest_micro_batches(sampler, costs, step, end, micro_batches_, 1);
    return costliest.empty() ? 0.0 : costliest[0].cost;
  };
  const uint64_t end = total_steps_ > 0 ? total_steps_ : step + sampler.steps_per_epoch();
  const double now = largest_until(std::min(end, step + kSteps));
  return now > 0 ? largest_until(end) / now : 1;
}

void RunForecast::compare(uint64_t device_memory) const {
  const bool on_device = session_.run_info().device.type == PL_DEVICE_CUDA;
  const uint64_t measured = on_device ? device_memory : launch::peak_host_memory();
  if (measured == 0 || !memory_) return;
  const uint64_t predicted = memory_->peak();
  session_.log().info(
      fmt::format("memory     {} at most{}; predicted in the first {} step{}: {} ({:+.1f}%)",
                  observe::human_bytes(measured), on_device ? " on the device" : "", steps_,
                  steps_ == 1 ? "" : "s", observe::human_bytes(predicted),
                  100 * (static_cast<double>(predicted) / static_cast<double>(measured) - 1)));
}

RunSteps::RunSteps(Session& session, TrainState& state, StepReports& reports, RunActivity& activity)
    : session_(session),
      state_(state),
      reports_(reports),
      activity_(activity),
      sampler_(session.plan(), sampler_options(session)),
      micro_batches_(session.plan().micro_batches_of(static_cast<uint64_t>(session.run_info().rank),
                                                     session.strategy().info().micro_batch_order)),
      total_(total_steps(session.config(), sampler_)),
      schedule_(make_schedule(session.config(), session.plan().global_batch, total_)),
      forecast_(session, micro_batches_, total_) {}

void RunSteps::start_loading() {
  const uint64_t first = state_.step, per_step = micro_batches_.size();
  const auto sequence = [this, first, per_step](uint64_t index) -> std::optional<LoadRequest> {
    const uint64_t step = first + index / per_step;
    if (total_ > 0 && step >= total_) return std::nullopt;
    LoadRequest request{.epoch = sampler_.epoch_of(step)};
    if (const auto m = micro_batches_[index % per_step]) request.ids = sampler_.micro_batch(step, *m);
    return request;
  };
  batches_ = std::make_unique<Prefetcher>(session_.task(), loader_options(session_, per_step), sequence);
}

void RunSteps::take() {
  const uint64_t step = state_.step;
  Profile* const profile = activity_.profile();
  activity_.begin("data.load", fmt::format("waiting for the data of step {}", step + 1));
  if (profile) profile->before_step(step + 1);
  const double began = now_seconds();
  reports_.next_step_begins(began);
  std::vector<plugins::Batch> batches = next_batches();
  TakenStep now{.began = began, .data_wait = now_seconds() - began};
  activity_.begin("training", fmt::format("training step {}", step + 1));
  const StepFacts facts = exchange_facts(batches);
  now.weight = facts.weight;
  now.record = {.step = step + 1,
                .epoch = static_cast<double>(step + 1) / static_cast<double>(per_epoch()),
                .learning_rate = schedule_.at(step),
                .loss_scale = state_.loss_scale.value(),
                .samples = sampler_.samples_in(step),
                .tokens = facts.tokens,
                .positions = facts.positions,
                .flops = facts.flops};

  train(batches, facts);
  now.ticket =
      session_.strategy().step(step_args(session_, step, now.record.learning_rate, state_.loss_scale));
  now.late = session_.take_late_metrics();
  activity_.add_time(Cost::optimizer);

  // By now the report of the step before is there, so nobody waits for the device.
  reports_.take(std::move(now), state_.loss_scale);
  activity_.add_time(Cost::device);
  ++state_.step;
  const uint64_t empty_every = session_.options().observe.empty_cache_every;
  const pl_device device = session_.run_info().device;
  if (empty_every > 0 && state_.step % empty_every == 0 && device.type != PL_DEVICE_CPU)
    give_back_unused(session_);
  if (profile) profile->after_step(step + 1);
}

std::vector<plugins::Batch> RunSteps::next_batches() {
  std::vector<plugins::Batch> batches;
  for (size_t i = 0; i < micro_batches_.size(); ++i) batches.push_back(std::move(*batches_->next()));
  activity_.add_time(Cost::data);
  return batches;
}

StepFacts RunSteps::exchange_facts(const std::vector<plugins::Batch>& batches) {
  std::vector<MicroBatchFacts> mine;
  for (size_t i = 0; i < batches.size(); ++i)
    if (batches[i])
      mine.push_back({.index = *micro_batches_[i],
                      .weight = batches[i].weight(),
                      .samples = batches[i].ids().size(),
                      .tokens = batches[i].info().tokens,
                      .positions = batches[i].info().positions,
                      .flops = session_.task().flops(batches[i])});
  StepFacts facts = sum_over_ranks(session_.processes(), mine);
  activity_.add_time(Cost::ranks);
  if (facts.weight <= 0 && !std::exchange(has_warned_of_no_weight_, true))
    session_.log().warning(fmt::format(
        "step {}: the weights of its samples, such as their target tokens, add up to 0: it trains nothing",
        state_.step + 1));
  return facts;
}

void RunSteps::train(std::vector<plugins::Batch>& batches, const StepFacts& facts) {
  plugins::Strategy& strategy = session_.strategy();
  forecast_.before_step(state_.step);
  strategy.begin_step(batches.size());
  const std::optional<GlobalOutputs> outputs = global_outputs(batches, facts);
  // The way of micro-batches through the units depends on which losses have a turn.
  const uint64_t idle_losses = session_.task().idle_losses(state_.step);
  for (size_t i = 0; i < batches.size(); ++i) {
    const bool is_new_way = std::exchange(last_idle_losses_, idle_losses) != idle_losses;
    if (!batches[i]) {
      if (is_new_way && strategy.has_unit_hooks() && session_.task().has_unit_hooks()) {
        const auto [batch, place] = first_of_step();
        go_through_units(session_, batch, place, outputs ? &*outputs : nullptr);
      }
      strategy.end_micro_batch(nullptr);
      continue;
    }
    train_micro_batch(session_, batches[i], {.step = state_.step, .index = *micro_batches_[i]}, facts.weight,
                      state_.loss_scale, outputs ? &*outputs : nullptr);
    forecast_.after_micro_batch();
    if (activity_.profile())
      activity_.add_time(Cost::compute, fmt::format("forward and backward {} of {}", i + 1, batches.size()));
  }
  forecast_.after_step();
  activity_.add_time(Cost::compute);
}

// A micro-batch that is not empty, for a rank that has none.
std::pair<plugins::Batch, MicroBatchPlace> RunSteps::first_of_step() {
  const std::vector<uint64_t> ids = sampler_.micro_batch(state_.step, 0);
  return {session_.task().load({.split = PL_SPLIT_TRAIN,
                                .purpose = PL_PURPOSE_TRAIN,
                                .ids = ids,
                                .epoch = sampler_.epoch_of(state_.step)}),
          MicroBatchPlace{.step = state_.step, .index = 0}};
}

// The outputs of all samples of the step, where the task's loss needs them.
std::optional<GlobalOutputs> RunSteps::global_outputs(std::span<const plugins::Batch> batches,
                                                      const StepFacts& facts) {
  const uint64_t micro_batches = session_.plan().micro_batches, step = state_.step;
  if (!GlobalOutputs::are_wanted(session_, micro_batches)) return std::nullopt;
  std::vector<MicroBatchPlace> places;
  for (const std::optional<uint64_t> m : micro_batches_)
    places.push_back({.step = step, .index = m.value_or(0)});
  std::optional<GlobalOutputs> outputs(std::in_place, session_, batches, places,
                                       RowsOfStep(facts.samples, micro_batches),
                                       [this] { return first_of_step(); });
  if (activity_.profile()) activity_.add_time(Cost::compute, "outputs of the global batch");
  return outputs;
}

void RunSteps::report_skipped(uint64_t step) {
  constexpr size_t kNamed = 8;
  observe::Log& log = session_.log();
  if (state_.loss_scale.dynamic() && state_.loss_scale.value() > 1) {
    log.debug(fmt::format("step {}: fp16 overflow at loss scale {}; the update was skipped", step + 1,
                          state_.loss_scale.value()));
    return;
  }
  std::vector<std::string> names;
  size_t count = 0;
  for (uint64_t m = 0; m < session_.plan().micro_batches; ++m)
    for (const uint64_t id : sampler_.micro_batch(step, m))
      if (++count <= kNamed) names.push_back(session_.task().sample_name(PL_SPLIT_TRAIN, id));
  log.warning(fmt::format("step {}: the gradient is not finite; the update was skipped. Samples: {}{}",
                          step + 1, fmt::join(names, ", "),
                          count > kNamed ? fmt::format(" and {} more", count - kNamed) : ""));
}

}  // namespace pipeline::train
