#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/file_system.hpp"

namespace pipeline::checkpoint {

struct StoreOptions {
  std::string folder;     // the run's `checkpoints` folder; made when the first one is written
  uint64_t keep = 3;      // the newest ones; 0: all
  bool keep_best = true;  // and the one with the best metric
  bool higher_is_better = false;
};

struct Found {
  uint64_t step;
  std::string path;
  std::optional<double> metric;
};

struct Rejected {
  std::string name;    // of the entry in the folder
  std::string reason;  // "manifest.json is missing"
};

struct Scan {
  std::vector<Found>
      checkpoints;  // newest first; manifest and file sizes are right, checksums not yet looked at
  std::vector<Rejected> rejected;  // by name: damaged ones and things that are not ours
};

// The folder that holds a run's checkpoints, one folder each: `step-00000123`. [main]
class Store {
 public:
  explicit Store(StoreOptions options, FileSystem& file_system = FileSystem::real());

  const StoreOptions& options() const { return options_; }
  FileSystem& file_system() const { return file_system_; }

  Scan scan() const;
  // The newest one that verifies in full. What was passed over on the way, and why, is appended to
  // `rejected`.
  std::optional<Checkpoint> newest_good(std::vector<Rejected>* rejected = nullptr) const;
  std::optional<Found> best() const;

  // Puts right what a killed run left: half-written folders are removed, a replaced checkpoint whose
  // successor did not arrive comes back. Returns what was done, one line each. Call it on rank 0 before
  // anything is read.
  std::vector<std::string> recover();

  // Removes checkpoints up to `step` that are neither among the newest `keep` nor the best. Damaged and
  // foreign entries, and checkpoints beyond `step`, are left alone. Returns the names of those removed.
  std::vector<std::string> prune(uint64_t step);

  std::string path_of(uint64_t step) const;
  std::string temporary_path_of(uint64_t step) const;
  std::string replaced_path_of(uint64_t step) const;

 private:
  StoreOptions options_;
  FileSystem& file_system_;
};

// "step-00000123" and back; nothing for any other name.
std::string folder_name(uint64_t step);
std::optional<uint64_t> step_of(std::string_view folder_name);

}  // namespace pipeline::checkpoint
