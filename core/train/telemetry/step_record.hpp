// What there is to tell of one optimizer step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipeline::train {

struct StepRecord {
  uint64_t step = 0;  // 1-based
  double epoch = 0;   // 0.5: half of the first one is done
  double loss = 0;    // mean over the global batch
  double learning_rate = 0;
  double grad_norm = 0;
  bool skipped = false;  // the gradient was not finite
  double loss_scale = 1;
  uint64_t samples = 0;
  uint64_t tokens = 0;     // useful ones
  uint64_t positions = 0;  // computed, padding included
  std::optional<double> flops;
  double seconds = 0;
  double data_wait_seconds = 0;
  std::optional<double> device_utilisation;  // mean of the ranks' devices, as last known
  std::vector<std::pair<std::string, double>> task_metrics;
};

}  // namespace pipeline::train
