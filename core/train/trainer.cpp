#include "core/train/trainer.hpp"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/monotonic_clock.hpp"
#include "core/base/socket.hpp"
#include "core/observe/format.hpp"
#include "core/train/session/metrics.hpp"
#include "core/train/session/sampling.hpp"
#include "core/train/telemetry/announce.hpp"
#include "core/train/telemetry/memory.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kStepsForGradients = 100;  // by then each parameter that is used should have had one
constexpr double kLookSeconds = 1;            // at the run's files
constexpr double kCheckSeconds = 0.25;        // between looks at the background writer

}  // namespace

Trainer::Trainer(Session& session, RunFolder& folder)
    : session_(session),
      processes_(session.processes()),
      folder_(folder),
      log_(session.log()),
      config_(session.config()),
      options_(session.options()),
      sampler_(session.plan(), sampler_options(session)),
      my_micro_batches_(session.plan().micro_batches_of(static_cast<uint64_t>(session.run_info().rank),
                                                        session.strategy().info().micro_batch_order)),
      max_seconds_(options_.train.max_seconds.value_or(0)),
      total_steps_(total_steps(config_, sampler_)),
      schedule_(make_schedule(config_, session.plan().global_batch, total_steps_)),
      reports_(report_ends()),
      checkpointer_(session, folder),
      forecast_(session, my_micro_batches_, total_steps_) {
  state_.loss_scale = LossScale(loss_scale_options(session));
}

Trainer::~Trainer() = default;

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
  reports_.collect_all();
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
  if (origin.is_branch) {
    branch(*origin.resumed);
    weights = "weights and state from " + origin.resumed->path();
  } else if (origin.resumed) {
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
  records_ = open_records(session_, folder_, state_.step + 1, origin.resumed && !origin.is_branch);
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
                                                   .every = options_.observe.log_every,
                                                   .peak_flops = peak_flops,
                                                   .dynamic_loss_scale = session_.precision().loss_scaling});
}

void Trainer::load(const checkpoint::Checkpoint& from) {
  load_state(session_, from);
  state_ = TrainState::from_json(from.contents().train_state_json, loss_scale_options(session_), from.path());
  reports_.resume(state_.unapplied);
  state_.unapplied.reset();
}

// Of the other run's training; its time and its evaluations are its own.
void Trainer::branch(const checkpoint::Checkpoint& from) {
  checkpointer_.begin_branch(from);
  load(from);
  state_.seconds = 0;
  state_.best.reset();
  state_.patience.reset();
  if (total_steps_ > 0 && state_.step >= total_steps_)
    throw config_.error(options_.train.max_steps ? "train.max_steps" : "train.max_epochs",
                        fmt::format("{} is at step {} already, and training ends at step {}", from.path(),
                                    state_.step, total_steps_));
}

void Trainer::resume(const checkpoint::Checkpoint& from) {
  const bool is_changed = checkpointer_.continue_changed(from);
  load(from);
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

bool Trainer::done() const {
  return (total_steps_ > 0 && state_.step >= total_steps_) || time_is_up_ || has_lost_patience();
}

// What only one rank can know, a signal or the time, all must know before they go on.
Boundary Trainer::agree_on_boundary() {
  Boundary mine;
  mine.signal = Signals::received();
  mine.time_is_up = max_seconds_ > 0 && elapsed() >= max_seconds_;
  mine.save = checkpointer_.due(state_.step);
  if (processes_.is_first() && now_seconds() - looked_ > kLookSeconds) {
    mine.lost = lost();
    looked_ = now_seconds();
  }
  mine.metrics = session_.take_metrics();
  if (const auto busy = monitor_ ? monitor_->recent_utilisation() : std::nullopt)
    add(mine.metrics, {kDeviceUtilisation, *busy, 1});  // so its mean over the ranks is that of the devices
  reports_.tell(mine);
  Boundary all = agree(processes_, mine);
  time_is_up_ = all.time_is_up;
  reports_.hear(all);
  return all;
}

StepReports::Ends Trainer::report_ends() {
  return {.collect = [this](uint64_t ticket) { return session_.strategy().collect(ticket); },
          .read = [this](const std::vector<LateMetric>& late) { return session_.read_metrics(late); },
          .add_up = [this](const std::vector<MetricSum>& mine) { return add_up(processes_, mine); },
          .collected = [this](const StepRecord& record) { note(record); },
          .complete = [this](const StepRecord& record) { report(record); }};
}

// The report of the step before is still to come when one fails, and would be lost. Several ranks would have
// to collect it together.
void Trainer::tell_last_step() {
  if (processes_.world().size > 1) return;
  try {
    reports_.collect_all();
  } catch (const std::exception&) {  // the device that failed, perhaps
  }
}

// All ranks learn this of a step at the same moment.
void Trainer::note(const StepRecord& record) {
  state_.health.add_step(record.step, record.loss, !record.skipped);
  if (session_.run_info().device.type == PL_DEVICE_CUDA)
    costs_->note_device_memory(launch::cuda_memory().used);
}

void Trainer::report(const StepRecord& record) {
  if (!reporter_) return;
  const bool on_device = session_.run_info().device.type == PL_DEVICE_CUDA;
  reporter_->step(record, elapsed(),
                  {.host = launch::peak_host_memory(), .device = on_device ? launch::cuda_memory().used : 0});
  if (record.skipped) report_skipped(record.step - 1);
}

Outcome Trainer::run(std::optional<Signals::Saves>& saves) {
  began_ = now_seconds();
  start_loading();
  costs_.emplace(session_.groups());
  start_monitor();
  if (save_is_owed_) save(true);
  const uint64_t evaluate_every = options_.evaluate.every;
  const auto evaluation_due = [&](bool last) {
    if (evaluated_step_ == state_.step) return false;
    if (state_.step == 0) return options_.evaluate.at_start;
    return (evaluate_every > 0 && state_.step % evaluate_every == 0) || (last && options_.evaluate.at_end);
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
    end_if_lost(boundary.lost);
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
      Signals::hear();
      log_.info(fmt::format("{}: saving at step {} and leaving{}", Signals::name(boundary.signal),
                            state_.step, cut_off ? "; the evaluation will run when the run continues" : ""));
      save(true);
      finish_profile();
      summarize(false);
      processes_.leave_together();
      return Outcome::interrupted;
    }
    if (last || has_lost_patience()) break;
    const bool is_best =
        metric_ && state_.best && state_.best->step == state_.step && options_.checkpoint.keep_best;
    const bool made_up =
        metric_ && checkpointer_.saved(state_.step,
                                       false);  // the evaluation of a step that was saved when it was cut off
    if (boundary.save || save_is_owed_ || is_best || made_up) save(false);
    // An evaluation's memory, or a checkpoint's copy, would be taken for activations.
    if (boundary.save || evaluates) forecast_.stop();
    if (now_seconds() - looked > kCheckSeconds) {
      checkpointer_.poll();
      looked = now_seconds();
    }
    metric_.reset();
    lap(Cost::checkpoint);
    try {
      train_step();
    } catch (...) {
      tell_last_step();
      throw;
    }
    if (!saves) saves.emplace();
    if (state_.step > first + 1) beginning.reset();
    if (state_.step == first + kStepsForGradients) warn_of_unused_parameters(session_, kStepsForGradients);
    if (profile_ && profile_->is_over()) finish_profile();
  }
  beginning.reset();
  if (state_.step > first && state_.step < first + kStepsForGradients)
    warn_of_unused_parameters(session_, state_.step - first);
  reports_.collect_all();
  if (state_.health.ends_badly()) end_badly({});
  save(true);
  if (profile_) profile_->end(state_.step);
  end_if_lost(processes_.on_first("looking at the run's files", [this] { return lost(true); }));
  if (has_lost_patience()) log_.info("ended early: " + patience_text());
  summarize(true);
  log_.console().status({});
  return Outcome::finished;
}

void Trainer::save(bool final) {
  if (!is_ending_) end_if_lost(processes_.on_first("looking at the run's files", [this] { return lost(); }));
  reports_.collect_all();
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
  if (final || !options_.checkpoint.background) log_.console().status({});
  const observe::Elapsed time(log_.console(), phase_);
  std::vector<std::string> ruined;
  if (!checkpointer_.saved(state_.step, metric_.has_value())) {
    TrainState state = state_;
    state.seconds = elapsed();
    state.unapplied = reports_.unapplied();
    ruined = checkpointer_.save(state, metric_, final);
  }
  if (final) checkpointer_.finish();
  return ruined.empty()
             ? ""
             : fmt::format("after step {} weights are not finite: {}", state_.step, observe::listed(ruined));
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
  if (const auto predicted = forecast_.peak()) mine["predicted_memory"] = *predicted;
  forecast_.compare(costs_->device_memory());
  const std::vector<nlohmann::json> ranks = processes_.exchange("costs", mine);
  if (!processes_.is_first()) return;
  nlohmann::ordered_json summary = describe_run(session_);
  summary["finished"] = finished;
  if (finished && has_lost_patience()) summary["ended_early"] = patience_text();
  summary["steps"] = state_.step;
  summary["seconds"] = elapsed();
  summary["ranks"] = ranks;
  folder_.write_file("summary.json", summary.dump(1) + "\n");
  const ProcessGroup::Busy busy(processes_);
  records_->finish(!finished);
}

}  // namespace pipeline::train
