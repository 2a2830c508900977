// What a run left behind, read for comparing and showing: its own folder, or a file of losses from another
// program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace pipeline::report {

// Figures by step. A figure that a line does not have, or has as null, is NaN there.
struct Curve {
  std::vector<uint64_t> steps;  // ascending
  std::map<std::string, std::vector<double>> figures;

  const std::vector<double>* find(const std::string& name) const;
};

struct RunRecord {
  std::string name;            // short, for legends
  std::filesystem::path path;  // of the folder or file
  Curve training, evaluations;
  std::map<std::string, std::string> options;  // as resolved: "train.global_batch" -> "32"
  nlohmann::ordered_json summary;              // summary.json; null before the run trains
  bool finished = false;

  uint64_t last_step() const { return training.steps.empty() ? 0 : training.steps.back(); }
  // Tokens, or else samples, in a second: the median over the steps, which starts and other work on the
  // machine do not move.
  double throughput() const;
  uint64_t peak_host_memory() const;  // bytes, of the rank with most; 0: not known
  uint64_t processes() const;         // 0: not known

  // The rank that works longest, in loading, forward and backward passes and updates, while the others wait
  // for it.
  struct Straggler {
    size_t rank = 0;
    double excess = 0;  // over the mean of all ranks: 0.1 is 10% more
  };
  std::optional<Straggler> straggler() const;  // nullopt: one rank, or not known

  // The ranks' devices, as NVML saw them.
  struct DeviceUse {
    double mean = 0, least = 0;  // share of the time in which something ran on them
    size_t least_rank = 0;
    uint64_t memory = 0;  // bytes, of the one with most, all processes together, at most
    bool operator==(const DeviceUse&) const = default;
  };
  std::optional<DeviceUse> device_use() const;  // nullopt: not known
};

// `folder`: of a run, or of one stage of it. Throws Error if it is not one.
RunRecord read_run(const std::filesystem::path& folder, std::string name);

// The folders of the runs in `folder`: itself, or those of its stages in the order in which they began.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

// A file of another program: JSON objects a line, or CSV with a header. The step is the column `step`,
// `global_step`, `_step`, `iter` or `iteration`, the loss `loss`, `train_loss`, `train/loss` or
// `training_loss`. Throws Error that names the columns found where these are missing.
RunRecord read_losses(const std::filesystem::path& file, std::string name);

}  // namespace pipeline::report
