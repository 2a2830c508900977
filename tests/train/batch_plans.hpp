#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/train/data/batch_plan.hpp"

namespace pipeline::train {

// What a configuration says of batches.
struct Batches {
  std::optional<uint64_t> global_batch, batch_per_device, micro_batch, accumulation_steps;
  uint64_t world_size = 1;
  bool reproducible = false;
};

inline BatchPlan plan_of(const Batches& given) {
  std::vector<std::string> sets = {"task.plugin=any", "run.name=any"};
  const auto set = [&](const char* key, const std::optional<uint64_t>& value) {
    if (value) sets.push_back("train." + std::string(key) + "=" + std::to_string(*value));
  };
  set("global_batch", given.global_batch);
  set("batch_per_device", given.batch_per_device);
  set("micro_batch", given.micro_batch);
  set("accumulation_steps", given.accumulation_steps);
  if (given.reproducible) sets.push_back("run.reproducible=true");
  return BatchPlan::make(config::load({.file = "", .sets = sets, .stage = "", .find_plugins = {}}),
                         given.world_size);
}

}  // namespace pipeline::train
