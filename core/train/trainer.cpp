#include "core/train/trainer.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/socket.hpp"
#include "core/train/session/metrics.hpp"
#include "core/train/telemetry/costs.hpp"

namespace pipeline::train {
namespace {

constexpr uint64_t kStepsForGradients = 100;  // by then each parameter that is used should have had one

}  // namespace

Trainer::Trainer(Session& session, RunFolder& folder)
    : session_(session),
      processes_(session.processes()),
      folder_(folder),
      log_(session.log()),
      options_(session.options()),
      activity_(session, state_),
      reports_(report_ends()),
      steps_(session, state_, reports_, activity_),
      validation_(session, state_, activity_),
      saver_({.session = session,
              .folder = folder,
              .state = state_,
              .reports = reports_,
              .activity = activity_,
              .validation = validation_,
              .summarize_unfinished = [this] { summarize(false); }}) {
  state_.loss_scale = LossScale(loss_scale_options(session));
}

void Trainer::start(const Origin& origin) {
  activity_.begin("loading weights", "loading weights");
  const ProcessGroup::Busy busy(processes_);
  const observe::Elapsed time(log_.console(), "loading weights");
  const std::string weights = take_over(origin);
  session_.bind();
  saver_.checkpointer().require_finite(weights);
  validation_.check();  // before anything says that the run has begun
  announce_training(session_, steps_.schedule(), steps_.per_epoch(), weights);
  if (const auto steps = profiled_steps(session_.config()))
    activity_.set_profile(
        std::make_unique<Profile>(session_, folder_, *steps, state_.step + 1, steps_.total()));
  const double peak_flops = measure_peak_flops(session_);
  if (processes_.is_first()) start_records(origin, peak_flops);
}

// Returns what the weights are, for people.
std::string Trainer::take_over(const Origin& origin) {
  if (origin.is_branch) {
    branch(*origin.resumed);
    return "weights and state from " + origin.resumed->path();
  }
  if (origin.resumed) {
    resume(*origin.resumed);
    return "continued from " + origin.resumed->path();
  }
  saver_.checkpointer().begin_changed();
  return load_weights(session_, origin);
}

void Trainer::start_records(const Origin& origin, double peak_flops) {
  records_ = open_records(session_, folder_, state_.step + 1, origin.resumed && !origin.is_branch);
  saver_.set_records(records_.get());
  folder_.unmark_finished();
  folder_.unmark_diverged();
  folder_.write_file("config.toml",
                     config::stored_config(session_.config(), session_.resolved_toml(), folder_.path()));
  folder_.write_file("model.json", model_json(session_));
  // This summary stands until summarize() can say more.
  write_summary(describe());
  write_changes(folder_.path(), saver_.checkpointer().changes());
  std::vector<std::string> losses;
  for (const plugins::Loss& loss : session_.task().losses()) losses.push_back(loss.name);
  reporter_ =
      std::make_unique<Reporter>(log_, *records_,
                                 Reporter::Options{.total_steps = steps_.total(),
                                                   .max_seconds = options_.train.max_seconds.value_or(0),
                                                   .every = options_.observe.log_every,
                                                   .peak_flops = peak_flops,
                                                   .dynamic_loss_scale = session_.precision().loss_scaling,
                                                   .losses = std::move(losses)});
}

void Trainer::load(const checkpoint::Checkpoint& from) {
  load_state(session_, from);
  state_ = TrainState::from_json(from.contents().train_state_json, loss_scale_options(session_), from.path());
  reports_.resume(state_.unapplied);
  state_.unapplied.reset();
}

// Goes on from another run's training; the time and the evaluations are this one's own.
void Trainer::branch(const checkpoint::Checkpoint& from) {
  saver_.checkpointer().begin_branch(from);
  load(from);
  state_.seconds = 0;
  state_.best.reset();
  state_.patience.reset();
  const uint64_t total = steps_.total();
  if (total > 0 && state_.step >= total)
    throw session_.config().error(options_.train.max_steps ? "train.max_steps" : "train.max_epochs",
                                  fmt::format("{} is at step {} already, and training ends at step {}",
                                              from.path(), state_.step, total));
}

void Trainer::resume(const checkpoint::Checkpoint& from) {
  const bool is_changed = saver_.checkpointer().continue_changed(from);
  load(from);
  // A change is kept at once, in this very checkpoint: otherwise a kill before the next one would undo it.
  saver_.set_owed(is_changed);
  if (is_changed)
    validation_.set_metric(from.contents().metric);
  else
    saver_.checkpointer().continue_from(state_.step, from.contents().metric.has_value());
  if (const uint64_t total = steps_.total(); total > 0 && state_.step > total)
    log_.warning(
        fmt::format("{} is already at step {}, past the end of training at step {}: nothing to train",
                    folder_.path().string(), state_.step, total));
}

// Without NVML there is nothing to tell of, and nothing wrong.
void Trainer::start_monitor() {
  const pl_device device = session_.run_info().device;
  if (device.type != PL_DEVICE_CUDA) return;
  monitor_.emplace(session_.devices().cuda.at(static_cast<size_t>(device.id)).uuid);
  if (!monitor_->problem().empty())
    log_.debug("the device's utilisation is not known: " + monitor_->problem());
}

bool Trainer::done() const {
  return (steps_.total() > 0 && state_.step >= steps_.total()) || time_is_up_ ||
         validation_.selection().stops_early();
}

// What only one rank can know, a signal or the time, all must know before they go on.
Boundary Trainer::agree_on_boundary() {
  const double max_seconds = options_.train.max_seconds.value_or(0);
  Boundary mine;
  mine.signal = Signals::received();
  mine.time_is_up = max_seconds > 0 && activity_.elapsed() >= max_seconds;
  mine.save = saver_.due();
  mine.lost = saver_.lost_by_now();
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

// All ranks learn this of a step at the same moment.
void Trainer::note(const StepRecord& record) {
  state_.health.add_step(record.step, record.loss, !record.skipped);
  if (session_.run_info().device.type == PL_DEVICE_CUDA)
    activity_.costs().note_device_memory(launch::cuda_memory().used);
}

void Trainer::report(const StepRecord& record) {
  if (!reporter_) return;
  const bool on_device = session_.run_info().device.type == PL_DEVICE_CUDA;
  reporter_->step(record, activity_.elapsed(),
                  {.host = launch::peak_host_memory(), .device = on_device ? launch::cuda_memory().used : 0});
  if (record.skipped) steps_.report_skipped(record.step - 1);
}

// The report of the last step is waited for only where it can be the one too many.
void Trainer::end_if_skipping() {
  const uint64_t most = options_.train.max_nonfinite_steps;
  if (!reports_.pending() || state_.loss_scale.nonfinite_in_a_row() + 1 < most) return;
  reports_.collect_all();
  if (state_.loss_scale.nonfinite_in_a_row(reports_.unapplied()) >= most)
    saver_.end_diverged({fmt::format("train.max_nonfinite_steps = {} ends the run here", most)});
}

Outcome Trainer::run(std::optional<Signals::Saves>& saves) {
  activity_.start_clock();
  steps_.start_loading();
  start_monitor();
  if (saver_.is_owed()) saver_.save(true);
  validation_.begin(folder_, records_.get());
  // A step is told of when the next one is done, and the first ones may take long.
  std::optional<observe::Elapsed> beginning(std::in_place, log_.console(), "training the first steps");
  const uint64_t first = state_.step;
  for (;;) {
    Boundary boundary = agree_on_boundary();
    activity_.add_time(Cost::ranks);
    saver_.end_if_lost(boundary.lost);
    end_if_skipping();
    const bool last = done(), evaluates = validation_.due(last);
    // An evaluation would make a trace that is too large to open.
    if (last || evaluates) activity_.finish_profile(reports_);
    bool cut_off = false;
    if (evaluates) {
      reports_.collect_all();
      cut_off = !validation_.evaluate([this] { saver_.save(true); });
      boundary.signal = agree_on_boundary().signal;
      if (validation_.is_best() && processes_.is_first()) write_summary(describe());
      activity_.add_time(Cost::evaluation);
    }
    if (boundary.signal != 0 && (!last || cut_off)) return leave(boundary.signal, cut_off);
    if (last || validation_.selection().stops_early()) break;
    const bool is_best = validation_.is_best() && options_.checkpoint.keep_best;
    if (boundary.save || saver_.is_owed() || is_best || saver_.lacks_metric()) saver_.save(false);
    // An evaluation's memory, or a checkpoint's copy, would be taken for activations.
    if (boundary.save || evaluates) steps_.forecast().stop();
    saver_.poll();
    activity_.add_time(Cost::checkpoint);
    take_step();
    if (!saves) saves.emplace();
    if (state_.step > first + 1) beginning.reset();
    if (state_.step == first + kStepsForGradients) warn_of_unused_parameters(session_, kStepsForGradients);
    if (Profile* profile = activity_.profile(); profile && profile->is_over())
      activity_.finish_profile(reports_);
  }
  beginning.reset();
  if (state_.step > first && state_.step < first + kStepsForGradients)
    warn_of_unused_parameters(session_, state_.step - first);
  finish();
  return Outcome::finished;
}

// The report of the step before is still to come when one fails, and would be lost. Several ranks would have
// to collect it together.
void Trainer::take_step() {
  try {
    steps_.take();
  } catch (...) {
    if (processes_.world().size == 1) {
      try {
        reports_.collect_all();
      } catch (const std::exception&) {  // the device that failed, perhaps
      }
    }
    throw;
  }
}

// Saves for the next launch after a signal. `cut_off`: the evaluation after this step was.
Outcome Trainer::leave(int signal, bool cut_off) {
  Signals::hear();
  log_.info(fmt::format("{}: saving at step {} and leaving{}", Signals::name(signal), state_.step,
                        cut_off ? "; the evaluation will run when the run continues" : ""));
  saver_.save(true);
  activity_.finish_profile(reports_);
  summarize(false);
  processes_.leave_together();
  return Outcome::interrupted;
}

void Trainer::finish() {
  reports_.collect_all();
  if (state_.health.ends_badly()) saver_.end_diverged({});
  saver_.save(true);
  if (activity_.profile()) activity_.profile()->end(state_.step);
  saver_.end_if_lost(processes_.on_first("looking at the run's files", [this] { return saver_.lost(true); }));
  if (const ModelSelection& selection = validation_.selection(); selection.stops_early())
    log_.info("ended early: " + selection.why_it_stops());
  summarize(true);
  log_.console().status({});
}

// What can be said of the run while it goes on.
nlohmann::ordered_json Trainer::describe() const {
  nlohmann::ordered_json summary = describe_run(session_);
  if (state_.best) summary["best"] = nlohmann::json(*state_.best);
  return summary;
}

void Trainer::write_summary(const nlohmann::ordered_json& summary) const {
  folder_.write_file("summary.json", summary.dump(1) + "\n");
}

// Called by all ranks together.
void Trainer::summarize(bool finished) {
  activity_.add_time(Cost::checkpoint);
  nlohmann::json mine = activity_.costs().to_json();
  mine["host"] = host_name();
  if (const auto use = monitor_ ? monitor_->so_far() : std::nullopt) {
    if (use->utilisation) mine["device_utilisation"] = *use->utilisation;
    mine["driver_memory"] = use->memory;
  }
  if (const auto predicted = steps_.forecast().peak()) mine["predicted_memory"] = *predicted;
  steps_.forecast().compare(activity_.costs().device_memory());
  const std::vector<nlohmann::json> ranks = processes_.exchange("costs", mine);
  if (!processes_.is_first()) return;
  nlohmann::ordered_json summary = describe();
  summary["finished"] = finished;
  if (const ModelSelection& selection = validation_.selection(); finished && selection.stops_early())
    summary["ended_early"] = selection.why_it_stops();
  summary["steps"] = state_.step;
  summary["seconds"] = activity_.elapsed();
  summary["ranks"] = ranks;
  write_summary(summary);
  const ProcessGroup::Busy busy(processes_);
  records_->finish(!finished);
}

}  // namespace pipeline::train
