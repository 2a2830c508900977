// What is measured during a run: time, and what tasks report.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "core/launch/device_stream.hpp"

namespace pipeline::train {

// Monotonic seconds. For measuring only: no result may depend on it.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
