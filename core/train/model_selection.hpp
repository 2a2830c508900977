// Model selection and early stopping by evaluate.best_metric: which checkpoint is the best one, and when a
// run ends because no evaluation is better any more.
#pragma once

#include <string>

#include "core/checkpoint/checkpoint.hpp"
#include "core/config/core_options.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/train_state.hpp"

namespace pipeline::train {

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

}  // namespace pipeline::train
