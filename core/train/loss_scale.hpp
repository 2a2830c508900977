// The loss scale of fp16 training and the count of skipped steps. Reports arrive one step late, and are taken into account at a
// fixed step, so that a continued run scales exactly as an uninterrupted one.
#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

namespace pipeline::train {

// Doubles after `growth_interval` finite steps, halves on a step that was not (as torch.amp.GradScaler).
class LossScale {
 public:
  struct Options {
    bool dynamic = false;  // fp16; otherwise the scale stays 1
    double initial = 65536;
    uint64_t growth_interval = 2000;
  };

  explicit LossScale(const Options& options) : options_(options), scale_(options.dynamic ? options.initial : 1) {}

  double value() const { return scale_; }
  // Steps in a row that failed although the scale did not explain it (it was 1 or less).
  uint64_t nonfinite_in_a_row() const { return in_a_row_; }
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

}  // namespace pipeline::train
