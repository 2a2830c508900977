// What tasks report of a step: figures by name, on their way to means.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch/device_stream.hpp"

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

}  // namespace pipeline::train
