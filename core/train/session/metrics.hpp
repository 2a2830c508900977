// What tasks report of a step: figures by name, on their way to means.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/launch/devices.hpp"

namespace pipeline::train {

// What a line of metrics.jsonl may hold before the task's own figures, so no task may use these names.
inline constexpr std::string_view kMetricsFields[] = {"step",
                                                      "epoch",
                                                      "loss",
                                                      "learning_rate",
                                                      "grad_norm",
                                                      "samples",
                                                      "tokens",
                                                      "padding",
                                                      "tokens_per_second",
                                                      "mfu",
                                                      "seconds",
                                                      "data_wait_seconds",
                                                      "device_memory",
                                                      "loss_scale",
                                                      "skipped",
                                                      "device_utilisation"};
inline constexpr const char* kDeviceUtilisation = "device_utilisation";

// A figure on its way to a mean, from one micro-batch or many.
struct MetricSum {
  std::string name;
  double sum = 0, weight = 0;
};

// A metric on its way from the device.
struct LateMetric {
  std::string name;
  launch::ScalarReader::Copy sum;
  double weight = 0;
};

// Adds to the entry of that name, or makes it.
inline void add(std::vector<MetricSum>& to, const MetricSum& metric) {
  const auto found = std::ranges::find(to, metric.name, &MetricSum::name);
  if (found == to.end()) {
    to.push_back(metric);
  } else {
    found->sum += metric.sum;
    found->weight += metric.weight;
  }
}

// What there is to tell of one optimizer step.
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
