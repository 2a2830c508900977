// The training loop. It knows steps, not models: the task computes, the strategy updates, and everything they
// need is a pure function of the step.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/launch/device_monitor.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/run_activity.hpp"
#include "core/train/run_saver.hpp"
#include "core/train/run_steps.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/telemetry/reporter.hpp"
#include "core/train/validation.hpp"

namespace pipeline::train {

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
