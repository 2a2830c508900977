// What a checkpoint holds besides tensors so that a run continues exactly. The data position is the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "core/train/health.hpp"
#include "core/train/session/session.hpp"

namespace pipeline::train {

// The factor of the loss in fp16 that keeps small gradients from becoming 0.

// Doubles after `growth_interval` finite steps, halves on a step that was not (as torch.amp.GradScaler).
class LossScale {
 public:
  struct Options {
    bool dynamic = false;  // fp16; otherwise the scale stays 1
    double initial = 65536;
    uint64_t growth_interval = 2000;
  };

  explicit LossScale(const Options& options)
      : options_(options), scale_(options.dynamic ? options.initial : 1) {}

  double value() const { return scale_; }
  // Steps in a row that failed although the scale did not explain it (it was 1 or less); with the one after
  // those that update() has taken in, where it is known.
  uint64_t nonfinite_in_a_row(std::optional<bool> next = std::nullopt) const;
  uint64_t nonfinite_total() const { return total_; }
  bool dynamic() const { return options_.dynamic; }

  // Takes in the report of the step before the last.
  void update(bool finite);

  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  Options options_;
  double scale_;
  uint64_t finite_steps_ = 0;
  uint64_t in_a_row_ = 0;
  uint64_t total_ = 0;
};

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
