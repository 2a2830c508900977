// The factor of the loss in fp16 that keeps small gradients from becoming 0.
#pragma once

#include <cstdint>
#include <optional>

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

}  // namespace pipeline::train
