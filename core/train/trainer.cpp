#include "core/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/observe/format.hpp"
#include "core/train/run/announce.hpp"
#include "core/train/run/measures.hpp"
#include "core/train/run/sampling.hpp"
#include "core/train/run/schedule.hpp"
#include "core/train/run/signals.hpp"
#include "core/train/run/weights.hpp"
#include "core/train/training_step.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kStepsForGradients = 100;  // by then each parameter that is used should have had one
constexpr uint64_t kStepsForMemory = 10;  // by then an allocator has what it needs for steps of many sizes
constexpr double kCheckSeconds = 0.25;    // between looks at the background writer

void add_means(const std::vector<MetricSum>& metrics, StepRecord& record) {
  for (const MetricSum& metric : metrics) {
    if (metric.weight <= 0) continue;
    if (metric.name == kDeviceUtilisation)
      record.device_utilisation = metric.sum / metric.weight;
    else
      record.task_metrics.emplace_back(metric.name, metric.sum / metric.weight);
  }
}

}  // namespace

Trainer::Trainer(Session& session, RunFolder& folder)
    : session_(session),
      processes_(session.processes()),
      folder_(folder),
      log_(session.log()),
      config_(session.config()),
      sampler_(session.plan(), sampler_options(session)),
      my_micro_batches_(session.plan().micro_batches_of(static_cast<uint64_t>(session.run_info().rank),
                                                        session.strategy().info().micro_batch_order)),
      checkpointer_(session, folder) {
  state_.loss_scale = LossScale(loss_scale_options(session));
  plan_length();
}

Trainer::~Trainer() = default;

uint64_t Trainer::every(const char* key) const { return static_cast<uint64_t>(config_.get_int(key)); }

void Trainer::plan_length() {
  max_seconds_ = config_.find_float("train.max_seconds").value_or(0);
  total_steps_ = total_steps(config_, sampler_);
  schedule_ = make_schedule(config_, session_.plan().global_batch, total_steps_);
}

void Trainer::at(const char* what, std::string phase) {
  phase_ = std::move(phase);
  processes_.at(what, state_.step + 1);
}

// The time since the last lap went into `cost`; a profile names it as given, or by what that is.
void Trainer::lap(Cost cost, std::string_view phase) {
  costs_->lap(cost);
  if (profile_) profile_->lap(phase.empty() ? kPhaseNames[static_cast<size_t>(cost)] : phase);
}

// If there is one under way. All ranks together.
void Trainer::finish_profile() {
  if (!profile_ || !profile_->is_recording()) return;
  collect_all();
  at("writing the profile", "writing the profile");
  const ProcessGroup::Busy busy(processes_);
  profile_->finish();
  lap(Cost::checkpoint);  // files, too
}

void Trainer::start(const Origin& origin) {
  at("loading weights", "loading weights");
  const ProcessGroup::Busy busy(processes_);
  const observe::Elapsed time(log_.console(), "loading weights");
  std::string weights;
  if (origin.resumed) {
    resume(*origin.resumed);
    weights = "continued from " + origin.resumed->path();
  } else {
    checkpointer_.begin_changed();
    weights = load_weights(session_, origin);
  }
  session_.bind();
  checkpointer_.require_finite(weights);
  check_evaluation();  // before anything says that the run has begun
  announce_training(session_, schedule_, sampler_.steps_per_epoch(), weights);
  if (const auto steps = profiled_steps(config_))
    profile_ = std::make_unique<Profile>(session_, folder_, *steps, state_.step + 1, total_steps_);
  const double peak_flops = measure_peak_flops(session_);
  if (!processes_.is_first()) return;
  records_ = open_records(session_, folder_, state_.step + 1);
  folder_.unmark_finished();
  folder_.unmark_diverged();
  folder_.write_file("config.toml", config::stored_config(config_, session_.resolved_toml(), folder_.path()));
  folder_.write_file("model.json", model_json(session_));
  // Until summarize() can say more.
  folder_.write_file("summary.json", describe_run(session_).dump(1) + "\n");
  write_changes(folder_.path(), checkpointer_.changes());
  reporter_ =
      std::make_unique<Reporter>(log_, *records_,
                                 Reporter::Options{.total_steps = total_steps_,
                                                   .max_seconds = max_seconds_,
                                                   .every = every("observe.log_every"),
                                                   .peak_flops = peak_flops,
                                                   .dynamic_loss_scale = session_.precision().loss_scaling});
}

void Trainer::resume(const checkpoint::Checkpoint& from) {
  const bool is_changed = checkpointer_.continue_changed(from);
  load_state(session_, from, false);
  state_ = TrainState::from_json(from.contents().train_state_json, loss_scale_options(session_), from.path());
  last_finite_ = state_.unapplied;
  state_.unapplied.reset();
  // A change is kept at once, in this very checkpoint: otherwise a kill before the next one would undo it.
  save_is_owed_ = is_changed;
  if (is_changed)
    metric_ = from.contents().metric;
  else
    checkpointer_.continue_from(state_.step, from.contents().metric.has_value());
  if (total_steps_ > 0 && state_.step > total_steps_)
    log_.warning(
        fmt::format("{} is already at step {}, past the end of training at step {}: nothing to train",
                    folder_.path().string(), state_.step, total_steps_));
}

void Trainer::start_loading() {
  const uint64_t first = state_.step, per_step = my_micro_batches_.size();
  const auto sequence = [this, first, per_step](uint64_t index) -> std::optional<LoadRequest> {
    const uint64_t step = first + index / per_step;
    if (total_steps_ > 0 && step >= total_steps_) return std::nullopt;
    LoadRequest request{.ids = {}, .epoch = sampler_.epoch_of(step)};
    if (const auto m = my_micro_batches_[index % per_step]) request.ids = sampler_.micro_batch(step, *m);
    return request;
  };
  batches_ = std::make_unique<Prefetcher>(session_.task(), loader_options(session_, per_step), sequence);
}

// Without NVML there is nothing to tell of, and nothing wrong.
void Trainer::start_monitor() {
  const pl_device device = session_.run_info().device;
  if (device.type != PL_DEVICE_CUDA) return;
  monitor_.emplace(session_.devices().cuda.at(static_cast<size_t>(device.id)).uuid);
  if (!monitor_->problem().empty())
    log_.debug("the device's utilisation is not known: " + monitor_->problem());
}

double Trainer::elapsed() const { return state_.seconds + now_seconds() - began_; }

bool Trainer::done() const { return (total_steps_ > 0 && state_.step >= total_steps_) || time_is_up_; }

// What only one rank can know, a signal or the time, all must know before they go on.
Boundary Trainer::agree_on_boundary() {
  Boundary mine{.signal = Signals::received(),
                .time_is_up = max_seconds_ > 0 && elapsed() >= max_seconds_,
                .save = checkpointer_.due(state_.step),
                .data_wait = std::exchange(waited_, 0),
                .metrics = session_.take_metrics(),
                .has_late = pending_ && !pending_->late.empty(),
                .late_metrics = collected_ ? collected_->late : std::vector<MetricSum>()};
  if (const auto busy = monitor_ ? monitor_->recent_utilisation() : std::nullopt)
    add(mine.metrics, {kDeviceUtilisation, *busy, 1});  // so its mean over the ranks is that of the devices
  Boundary all = agree(processes_, mine);
  time_is_up_ = all.time_is_up;
  finish(all.late_metrics);
  if (pending_) {
    pending_->record.data_wait_seconds = all.data_wait;
    pending_->any_late = all.has_late;
    add_means(all.metrics, pending_->record);
  }
  return all;
}

// The step before the last: what its devices had to say has been exchanged by now.
void Trainer::finish(const std::vector<MetricSum>& late) {
  if (!collected_) return;
  StepRecord record = std::move(collected_->record);
  collected_.reset();
  add_means(late, record);
  if (!reporter_) return;
  const bool on_device = session_.run_info().device.type == PL_DEVICE_CUDA;
  reporter_->step(record, elapsed(),
                  {.host = launch::peak_host_memory(), .device = on_device ? launch::cuda_memory().used : 0});
  if (record.skipped) report_skipped(record.step - 1);
}

Outcome Trainer::run() {
  began_ = now_seconds();
  start_loading();
  costs_.emplace(session_.group());
  start_monitor();
  if (save_is_owed_) save(true);
  const uint64_t evaluate_every = every("evaluate.every");
  const auto evaluation_due = [&](bool last) {
    if (state_.step == 0 || evaluated_step_ == state_.step) return false;
    return (evaluate_every > 0 && state_.step % evaluate_every == 0) ||
           (last && config_.get_bool("evaluate.at_end"));
  };
  // An evaluation that a signal or a kill cut off is made up for.
  const auto was_evaluated = [&] {
    return observe::JsonLines::contains(folder_.evaluations(), "step", state_.step) ? "yes" : "no";
  };
  if (processes_.on_first("looking for the evaluation", was_evaluated) == "yes" &&
      state_.health.bad_evaluation().empty())
    evaluated_step_ = state_.step;
  double looked = 0;
  // A step is told of when the next one is done, and the first ones may take long.
  std::optional<observe::Elapsed> beginning(std::in_place, log_.console(), "training the first steps");
  const uint64_t first = state_.step;
  for (;;) {
    Boundary boundary = agree_on_boundary();
    lap(Cost::ranks);
    end_if_skipping();
    const bool last = done(), evaluates = evaluation_due(last);
    if (last || evaluates) finish_profile();  // an evaluation would make a trace that is too large to open
    bool cut_off = false;
    if (evaluates) {
      cut_off = !evaluate_now();
      boundary.signal = agree_on_boundary().signal;
      lap(Cost::evaluation);
    }
    if (boundary.signal != 0 && (!last || cut_off)) {
      log_.info(fmt::format("{}: saving at step {} and leaving{}", Signals::name(boundary.signal),
                            state_.step, cut_off ? "; the evaluation will run when the run continues" : ""));
      save(true);
      finish_profile();
      summarize(false);
      processes_.leave_together();
      return Outcome::interrupted;
    }
    if (last) break;
    const bool is_best = metric_ && state_.best && state_.best->step == state_.step &&
                         config_.get_bool("checkpoint.keep_best");
    const bool made_up =
        metric_ && checkpointer_.saved(state_.step,
                                       false);  // the evaluation of a step that was saved when it was cut off
    if (boundary.save || save_is_owed_ || is_best || made_up) save(false);
    // An evaluation's memory, or a checkpoint's copy, would be taken for activations.
    if (boundary.save || evaluates) forecast_is_made_ = forecast_.has_value();
    if (now_seconds() - looked > kCheckSeconds) {
      checkpointer_.poll();
      looked = now_seconds();
    }
    metric_.reset();
    lap(Cost::checkpoint);
    train_step();
    if (state_.step > first + 1) beginning.reset();
    if (state_.step == first + kStepsForGradients) warn_of_unused_parameters(session_, kStepsForGradients);
    if (profile_ && profile_->is_over()) finish_profile();
  }
  beginning.reset();
  if (state_.step > first && state_.step < first + kStepsForGradients)
    warn_of_unused_parameters(session_, state_.step - first);
  collect_all();
  if (state_.health.ends_badly()) end_badly({});
  save(true);
  if (profile_) profile_->end(state_.step);
  summarize(true);
  log_.console().status({});
  return Outcome::finished;
}

void Trainer::train_step() {
  const uint64_t step = state_.step;
  at("data.load", fmt::format("waiting for the data of step {}", step + 1));
  if (profile_) profile_->before_step(step + 1);
  const double began = now_seconds();
  if (pending_) pending_->record.seconds = began - pending_->began;

  std::vector<plugins::Batch> batches;
  for (size_t i = 0; i < my_micro_batches_.size(); ++i) batches.push_back(std::move(*batches_->next()));
  lap(Cost::data);
  Pending now;
  now.began = began;
  StepRecord& record = now.record;
  record.step = step + 1;
  record.learning_rate = schedule_.at(step);
  waited_ = now_seconds() - began;
  record.loss_scale = state_.loss_scale.value();
  record.samples = sampler_.samples_in(step);
  record.epoch = static_cast<double>(step + 1) / static_cast<double>(sampler_.steps_per_epoch());
  at("training", fmt::format("training step {}", step + 1));
  std::vector<MicroBatchFacts> mine;
  for (size_t i = 0; i < batches.size(); ++i)
    if (batches[i])
      mine.push_back({.index = *my_micro_batches_[i],
                      .weight = batches[i].weight(),
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
  if (!forecast_) {
    forecast_.emplace(session_, copies_checkpoints(config_, total_steps_), largest_to_come());
  }
  strategy.begin_step(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    if (!batches[i]) {
      strategy.end_micro_batch(nullptr);
      continue;
    }
    train_micro_batch(session_, batches[i], {.step = step, .index = *my_micro_batches_[i]}, now.weight,
                      state_.loss_scale);
    processes_.peers().progress();
    if (!forecast_is_made_) forecast_->micro_batch();
    if (profile_) lap(Cost::compute, fmt::format("forward and backward {} of {}", i + 1, batches.size()));
  }
  if (!forecast_is_made_) forecast_is_made_ = ++forecast_steps_ == kStepsForMemory;
  lap(Cost::compute);
  now.ticket = strategy.step(step_args(session_, record.learning_rate, state_.loss_scale));
  now.late = session_.take_late_metrics();
  lap(Cost::optimizer);

  // The report of the step before: by now it is there, so nobody waits for the device.
  collect();
  lap(Cost::device);
  if (last_finite_) state_.loss_scale.update(*std::exchange(last_finite_, std::nullopt));
  pending_ = std::move(now);
  ++state_.step;
  const uint64_t empty_every = every("observe.empty_cache_every");
  const pl_device device = session_.run_info().device;
  if (empty_every > 0 && state_.step % empty_every == 0 && device.type != PL_DEVICE_CPU)
    give_back_unused(session_);
  if (profile_) profile_->after_step(step + 1);
}

void Trainer::collect() {
  if (!pending_) return;
  Pending done = std::move(*pending_);
  pending_.reset();
  StepRecord& record = done.record;
  const pl_step_report report = session_.strategy().collect(done.ticket);  // waits for the device
  if (record.seconds == 0) record.seconds = now_seconds() - done.began;
  record.loss = observe::without_sign_if_nan(done.weight > 0 ? report.loss_sum / done.weight : 0);
  record.grad_norm = observe::without_sign_if_nan(report.grad_norm);
  record.skipped = report.finite == 0;
  state_.health.add_step(record.step, record.loss, !record.skipped);
  last_finite_ = !record.skipped;
  collected_ = Collected{std::move(record), session_.read_metrics(done.late)};
  if (!done.any_late) finish({});
  if (session_.run_info().device.type == PL_DEVICE_CUDA)
    costs_->note_device_memory(launch::cuda_memory().used);
}

// Leaves no step without its line, before something else is done; all ranks together.
void Trainer::collect_all() {
  collect();
  if (collected_) finish(add_up(processes_, collected_->late));
}

void Trainer::report_skipped(uint64_t step) {
  constexpr size_t kNamed = 8;
  if (state_.loss_scale.dynamic() && state_.loss_scale.value() > 1) {
    log_.debug(fmt::format("step {}: fp16 overflow at loss scale {}; the update was skipped", step + 1,
                           state_.loss_scale.value()));
    return;
  }
  std::vector<std::string> names;
  size_t count = 0;
  for (uint64_t m = 0; m < session_.plan().micro_batches; ++m)
    for (const uint64_t id : sampler_.micro_batch(step, m))
      if (++count <= kNamed) names.push_back(session_.task().sample_name(PL_SPLIT_TRAIN, id));
  log_.warning(fmt::format("step {}: the gradient is not finite; the update was skipped. Samples: {}{}",
                           step + 1, fmt::join(names, ", "),
                           count > kNamed ? fmt::format(" and {} more", count - kNamed) : ""));
}

void Trainer::save(bool final) {
  collect_all();
  // The weights are those from before the skipped updates, if not ruined: a checkpoint of them waits for an
  // update, so that it does not push out a good one.
  const bool evaluated = metric_ && std::isfinite(metric_->value);
  save_is_owed_ = !final && !evaluated && state_.health.skipped() > 0;
  if (save_is_owed_) return;
  if (const std::string ruined = write_checkpoint(final); !ruined.empty()) end_diverged({ruined});
}

std::string Trainer::write_checkpoint(bool final) {
  at("saving", fmt::format("saving after step {}", state_.step));
  const ProcessGroup::Busy busy(processes_);
  if (final || !config_.get_bool("checkpoint.background")) log_.console().status({});
  const observe::Elapsed time(log_.console(), phase_);
  std::vector<std::string> ruined;
  if (!checkpointer_.saved(state_.step, metric_.has_value())) {
    TrainState state = state_;
    state.seconds = elapsed();
    state.unapplied = last_finite_;
    ruined = checkpointer_.save(state, metric_, final);
  }
  if (final) checkpointer_.finish();
  return ruined.empty()
             ? ""
             : fmt::format("after step {} weights are not finite: {}", state_.step, observe::listed(ruined));
}

// The cost of this rank's largest micro-batch to come, as far as it is looked for, in terms of the largest
// one of the steps that the forecast measures.
double Trainer::largest_to_come() {
  if (!session_.task().has_sample_costs()) return 1;
  Sampler sampler(session_.plan(), sampler_options(session_));  // its own: it runs far ahead of the loader's
  std::vector<uint64_t> mine;
  for (const auto& m : my_micro_batches_)
    if (m) mine.push_back(*m);
  const auto costs = sample_costs(session_.task());
  const auto largest_until = [&](uint64_t end) {
    const auto costliest = costliest_micro_batches(sampler, costs, state_.step, end, mine, 1);
    return costliest.empty() ? 0.0 : costliest[0].cost;
  };
  const uint64_t end = total_steps_ > 0 ? total_steps_ : state_.step + sampler.steps_per_epoch();
  const double now = largest_until(std::min(end, state_.step + kStepsForMemory));
  return now > 0 ? largest_until(end) / now : 1;
}

// Of this rank. On a device the measured peak is the largest use that was seen between two steps.
void Trainer::compare_with_forecast(uint64_t predicted) {
  const bool on_device = session_.run_info().device.type == PL_DEVICE_CUDA;
  const uint64_t measured = on_device ? costs_->device_memory() : launch::peak_host_memory();
  if (measured == 0) return;
  log_.info(fmt::format("memory     {} at most{}; predicted in the first {} step{}: {} ({:+.1f}%)",
                        observe::human_bytes(measured), on_device ? " on the device" : "", forecast_steps_,
                        forecast_steps_ == 1 ? "" : "s", observe::human_bytes(predicted),
                        100 * (static_cast<double>(predicted) / static_cast<double>(measured) - 1)));
}

// All ranks together.
void Trainer::summarize(bool finished) {
  lap(Cost::checkpoint);
  nlohmann::json mine = costs_->to_json();
  mine["host"] = host_name();
  if (const auto use = monitor_ ? monitor_->so_far() : std::nullopt) {
    if (use->utilisation) mine["device_utilisation"] = *use->utilisation;
    mine["driver_memory"] = use->memory;
  }
  if (forecast_) {
    mine["predicted_memory"] = forecast_->peak();
    compare_with_forecast(forecast_->peak());
  }
  const std::vector<nlohmann::json> ranks = processes_.exchange("costs", mine);
  if (!processes_.is_first()) return;
  nlohmann::ordered_json summary = describe_run(session_);
  summary["finished"] = finished;
  summary["steps"] = state_.step;
  summary["seconds"] = elapsed();
  summary["ranks"] = ranks;
  folder_.write_file("summary.json", summary.dump(1) + "\n");
  const ProcessGroup::Busy busy(processes_);
  records_->finish(!finished);
}

}  // namespace pipeline::train
