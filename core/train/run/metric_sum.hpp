// A figure on its way to a mean: what tasks report, from one micro-batch or many.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace pipeline::train {

struct MetricSum {
  std::string name;
  double sum = 0, weight = 0;
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
