// The training loop. It knows steps, not models: the task computes, the strategy updates, and everything they
// need is a pure function of the step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/launch/devices.hpp"
#include "core/train/checkpointer.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/run_activity.hpp"
#include "core/train/run_steps.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/step_reports.hpp"
#include "core/train/telemetry/reporter.hpp"
#include "core/train/validation.hpp"

namespace pipeline::train {

// Saving in a run: what a checkpoint waits for, and the end of a run that has diverged or that has lost its
// files.

// All ranks make the same calls, but for poll() and lost(). Used from one thread.
class RunSaver {
 public:
  // What is saved, and where that shows.
  struct Parts {
    Session& session;
    RunFolder& folder;
    TrainState& state;
    StepReports& reports;
    RunActivity& activity;
    const Validation& validation;
    std::function<void()> summarize_unfinished;  // before a run ends as diverged
  };

  explicit RunSaver(Parts parts) : parts_(std::move(parts)), checkpointer_(parts_.session, parts_.folder) {}

  Checkpointer& checkpointer() { return checkpointer_; }
  // `records`: of rank 0, whose files are looked at, too.
  void set_records(const Records* records) { records_ = records; }

  // Whether checkpoint.every or checkpoint.every_seconds asks for one.
  bool due() const { return checkpointer_.due(parts_.state.step); }
  // Whether a checkpoint was due when updates were skipped, or is needed for what --change named.
  bool is_owed() const { return is_owed_; }
  void set_owed(bool owed) { is_owed_ = owed; }
  // Whether this step was saved when its evaluation was cut off, which has now been made up for.
  bool lacks_metric() const {
    return parts_.validation.metric() && checkpointer_.saved(parts_.state.step, false);
  }
  // Writes a checkpoint, in the background unless `final`. Ends the run where the weights are ruined.
  void save(bool final);
  // Tells of what the background writer has done, if it is a while since the last call.
  void poll();

  // Ends a run that learns no more. What is not known to be ruined is saved first: it was trained at some
  // cost.
  [[noreturn]] void end_diverged(std::vector<std::string> signs);

  // What others have taken away of the run's folder, records and checkpoints, as rank 0 sees it; empty:
  // nothing.
  std::string lost(bool at_end = false) const;
  // Calls lost() once a second, on rank 0.
  std::string lost_by_now();
  // Ends the run where `lost` is not empty, as all that it computes would be lost. Where the folder is still
  // there, what was learnt is saved first.
  void end_if_lost(const std::string& lost);

 private:
  std::string write_checkpoint(bool final);
  [[noreturn]] void end_without_saving(std::vector<std::string> signs);

  Parts parts_;
  Checkpointer checkpointer_;
  const Records* records_ = nullptr;
  bool is_owed_ = false;
  bool is_ending_ = false;          // because something of it is lost
  double looked_ = 0, polled_ = 0;  // monotonic seconds
};

// Trains one stage to its end, or until a signal. The session's task is open and its strategy created. Used
// from one thread.
class Trainer {
 public:
  Trainer(Session& session, RunFolder& folder);

  // Continues the run, or begins it with the values of `origin`.
  void start(const Origin& origin);
  // saves: made once a step is done, before which nothing can be lost.
  Outcome run(std::optional<Signals::Saves>& saves);

  // What is being done at the moment, for errors: "training step 12".
  const std::string& phase() const { return activity_.phase(); }

 private:
  std::string take_over(const Origin& origin);
  void load(const checkpoint::Checkpoint& from);
  void branch(const checkpoint::Checkpoint& from);
  void resume(const checkpoint::Checkpoint& from);
  void start_records(const Origin& origin, double peak_flops);
  void start_monitor();
  Boundary agree_on_boundary();
  void take_step();
  void finish();
  Outcome leave(int signal, bool cut_off);
  StepReports::Ends report_ends();
  void note(const StepRecord& record);
  void report(const StepRecord& record);
  void end_if_skipping();
  nlohmann::ordered_json describe() const;
  void write_summary(const nlohmann::ordered_json& summary) const;
  void summarize(bool finished);
  bool done() const;

  Session& session_;
  ProcessGroup& processes_;
  RunFolder& folder_;
  observe::Log& log_;
  const config::CoreOptions& options_;

  TrainState state_;
  RunActivity activity_;
  StepReports reports_;
  RunSteps steps_;
  Validation validation_;
  RunSaver saver_;
  bool time_is_up_ = false;                       // train.max_seconds, as all ranks agreed
  std::optional<launch::DeviceMonitor> monitor_;  // of a device, in run()
  std::unique_ptr<Records> records_;              // of rank 0, as is the next one
  std::unique_ptr<Reporter> reporter_;
};

}  // namespace pipeline::train
