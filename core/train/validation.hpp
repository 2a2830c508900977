// The evaluations between training steps, on the val split.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/config/core_options.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/run_activity.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/telemetry/reporter.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

// Model selection and early stopping by evaluate.best_metric: which checkpoint is the best one, and when a
// run ends because no evaluation is better any more.

// Keeps what it knows in the state of the run, so that a continued run selects the same. Used from one
// thread.
class ModelSelection {
 public:
  struct Judgement {
    checkpoint::Metric metric;  // NaN where the loss or this figure is not finite
    bool is_best = false;       // so far
  };

  ModelSelection(const config::EvaluateOptions& options, TrainState& state)
      : options_(options), state_(state) {}

  // Takes the evaluation after state.step into account, which must have a figure of that name.
  Judgement judge(const Evaluation& evaluation);

  bool stops_early() const;
  // "3 evaluations in a row gave no better loss than 1.25 of step 40 (evaluate.patience)"; if stops_early().
  std::string why_it_stops() const;

 private:
  void count_for_patience(const Figure& figure, bool is_finite);

  const config::EvaluateOptions& options_;
  TrainState& state_;
};

// All ranks make the same calls. Used from one thread.
class Validation {
 public:
  // `state`: of the run; the weights are those after state.step.
  Validation(Session& session, TrainState& state, RunActivity& activity);

  // Throws what would otherwise show up only after hours of training.
  void check() const;
  // Training begins: an evaluation that was cut off is made up for. `records`: of rank 0, or nullptr.
  void begin(const RunFolder& folder, Records* records);
  // `last`: no step comes after this one.
  bool due(bool last) const;
  // Evaluates. `save` is called before it throws: what was trained is not lost to an error here. False: it
  // was cut off by a signal.
  bool evaluate(const std::function<void()>& save);

  // The figure of evaluate.best_metric, where it was evaluated after this very step.
  std::optional<checkpoint::Metric> metric() const;
  // Sets the metric, in a run that goes on from a checkpoint which has one.
  void set_metric(std::optional<checkpoint::Metric> metric);
  // Whether the weights after this step are the best so far.
  bool is_best() const { return metric() && state_.best && state_.best->step == state_.step; }
  const ModelSelection& selection() const { return selection_; }

 private:
  std::optional<Evaluation> measure(const std::function<void()>& save, std::vector<std::string>& shown);
  void record(const Evaluation& result, const std::function<void()>& save);
  void require_selecting_figure(const Evaluation& result, const std::function<void()>& save) const;
  void announce_result(const std::string& when, const Evaluation& result, const std::string& more,
                       const std::vector<std::string>& shown) const;
  bool uses_average() const { return options_.ema && state_.step > 0; }

  static constexpr uint64_t kNever = ~uint64_t{0};

  Session& session_;
  const config::EvaluateOptions& options_;
  TrainState& state_;
  RunActivity& activity_;
  ModelSelection selection_;
  Records* records_ = nullptr;
  uint64_t evaluated_step_ = kNever;  // after which the last evaluation was
  uint64_t metric_step_ = kNever;
  std::optional<checkpoint::Metric> metric_;
};

}  // namespace pipeline::train
