// The evaluations between training steps, on the val split.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/train/model_selection.hpp"
#include "core/train/run_activity.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/telemetry/records.hpp"

namespace pipeline::train {

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
