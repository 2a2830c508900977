// What a run left behind, read for comparing and showing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/report/curve.hpp"

namespace pipeline::report {

struct RunRecord {
  std::string name;            // short, for legends
  std::filesystem::path path;  // of the folder or file
  Curve training, evaluations;
  std::map<std::string, std::string> options;  // as resolved: "train.global_batch" -> "32"
  nlohmann::ordered_json summary;              // summary.json; null before the run trains
  bool finished = false;
  // What became of a run that was to be made for a comparison.
  enum class Made { yes, failed, no } made = Made::yes;
  std::string why_not;  // "exited with code 2"

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

// Whether it is the folder of a run, or of a stage of it, that has begun to train.
bool has_steps(const std::filesystem::path& folder);

// `folder`: one that has_steps(). Throws Error (PL_ERROR_CONFIG) if not, and for what cannot be read in it.
RunRecord read_run(const std::filesystem::path& folder, std::string name);

// The folders of the runs in `folder`: itself, or those of its stages in the order in which they began; empty
// where none has begun.
std::vector<std::filesystem::path> find_stages(const std::filesystem::path& folder);
// Returns find_stages(); throws Error where there are none.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

}  // namespace pipeline::report
