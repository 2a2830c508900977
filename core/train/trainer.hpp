// The training loop. It knows steps, not models: the task computes, the strategy updates, and everything they
// need is a pure function of the step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/launch/device_monitor.hpp"
#include "core/train/checkpointer.hpp"
#include "core/train/data/prefetcher.hpp"
#include "core/train/data/sampler.hpp"
#include "core/train/global_outputs.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/run_forecast.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/schedule.hpp"
#include "core/train/session/session.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/step_exchange.hpp"
#include "core/train/step_reports.hpp"
#include "core/train/telemetry/costs.hpp"
#include "core/train/telemetry/profile.hpp"
#include "core/train/telemetry/records.hpp"
#include "core/train/telemetry/reporter.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

// Trains one stage to its end, or until a signal. The session's task is open and its strategy created. Used
// from one thread.
class Trainer {
 public:
  Trainer(Session& session, RunFolder& folder);
  ~Trainer();

  // Continues the run, or begins it with the values of `origin`.
  void start(const Origin& origin);
  // saves: made once a step is done, before which nothing can be lost.
  Outcome run(std::optional<Signals::Saves>& saves);

  // What is being done at the moment, for errors: "training step 12".
  const std::string& phase() const { return phase_; }

 private:
  void load(const checkpoint::Checkpoint& from);
  void branch(const checkpoint::Checkpoint& from);
  void resume(const checkpoint::Checkpoint& from);
  void start_loading();
  void start_monitor();
  Boundary agree_on_boundary();
  std::pair<plugins::Batch, MicroBatchPlace> first_of_step();
  std::optional<GlobalOutputs> global_outputs(std::span<const plugins::Batch> batches,
                                              const StepFacts& facts);
  void train_step();
  void tell_last_step();
  StepReports::Ends report_ends();
  void note(const StepRecord& record);
  void report(const StepRecord& record);
  void report_skipped(uint64_t step);
  void check_evaluation() const;
  bool evaluate_now();
  void record_evaluation(const Evaluation& result);
  void tell_evaluation(const std::string& when, const Evaluation& result, const std::string& more,
                       const std::vector<std::string>& shown);
  void save(bool final);
  // Returns what is wrong with the weights, which are not written then; empty: nothing.
  std::string write_checkpoint(bool final);
  void end_if_skipping();
  std::string lost(bool at_end = false) const;
  void end_if_lost(const std::string& lost);
  [[noreturn]] void end_badly(std::vector<std::string> signs);
  [[noreturn]] void end_diverged(std::vector<std::string> signs);
  void summarize(bool finished);
  void be_patient(const Figure& figure, bool is_finite);
  bool has_lost_patience() const;
  std::string patience_text() const;
  bool done() const;
  double elapsed() const;
  void at(const char* what, std::string phase);
  void lap(Cost cost, std::string_view phase = {});
  void finish_profile();

  Session& session_;
  ProcessGroup& processes_;
  RunFolder& folder_;
  observe::Log& log_;
  const config::Config& config_;
  const config::CoreOptions& options_;
  std::string phase_ = "starting";

  Sampler sampler_;
  std::vector<std::optional<uint64_t>> my_micro_batches_;
  const double max_seconds_;    // 0: no limit
  const uint64_t total_steps_;  // 0: until max_seconds
  const Schedule schedule_;

  TrainState state_;
  StepReports reports_;
  bool time_is_up_ = false;              // train.max_seconds, as all ranks agreed
  bool save_is_owed_ = false;            // one was due when updates were skipped
  bool has_gone_through_units_ = false;  // this process, in any micro-batch
  bool told_of_no_weight_ = false;       // that a step trains nothing
  std::optional<checkpoint::Metric>
      metric_;                              // evaluate.best_metric, if it was evaluated after this very step
  uint64_t evaluated_step_ = ~uint64_t{0};  // after which the last evaluation was
  double looked_ = 0;                       // when, monotonic seconds, at what others may take away
  bool is_ending_ = false;                  // because something of it is lost
  double began_ = 0;                        // of this process's training, monotonic seconds

  Checkpointer checkpointer_;
  std::optional<Costs> costs_;                    // of run()
  std::optional<launch::DeviceMonitor> monitor_;  // of a device, in run()
  RunForecast forecast_;
  std::unique_ptr<Records> records_;  // of rank 0, as is the next one
  std::unique_ptr<Reporter> reporter_;
  std::unique_ptr<Prefetcher> batches_;
  std::unique_ptr<Profile> profile_;  // where observe.profile asks for one
};

}  // namespace pipeline::train
