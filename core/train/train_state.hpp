// What a checkpoint holds besides tensors so that a run continues exactly. The data position is the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/train/health.hpp"
#include "core/train/loss_scale.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// The options by [train], for the session's precision.
LossScale::Options loss_scale_options(const Session& session);

struct Best {
  std::string metric;
  double value = 0;
  uint64_t step = 0;
};

// The state of evaluate.patience: what figures must be better than, and how many in a row have not been.
struct Patience {
  std::string metric;
  double reference = 0;
  uint64_t step = 0;  // of the reference
  uint64_t waited = 0;
};

struct TrainState {
  uint64_t step = 0;   // optimizer steps done
  double seconds = 0;  // spent training, over all processes that continued this run
  LossScale loss_scale{{}};
  std::optional<bool> unapplied;  // was the last step finite? loss_scale learns of it one step late
  Health health;
  std::optional<Best> best;  // by evaluate.best_metric as it was then
  std::optional<Patience> patience;

  std::string to_json() const;
  // Throws pipeline::Error (PL_ERROR_CORRUPT) naming `where`.
  static TrainState from_json(const std::string& text, const LossScale::Options& options,
                              const std::string& where);
};

}  // namespace pipeline::train
