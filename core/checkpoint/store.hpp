#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/file_system.hpp"

namespace pipeline::checkpoint {

struct StoreOptions {
  std::string folder;     // a run's `checkpoints`; made when the first one is written
  uint64_t keep = 3;      // the newest ones; 0: all
  bool keep_best = true;  // and the one with the best metric
};

struct Found {
  uint64_t step;
  std::string path;
  std::optional<Metric> metric;
};

struct Scan {
  std::vector<Found> checkpoints;  // newest first; right by manifest and file sizes, not by checksums
  std::vector<Rejected> rejected;  // damaged ones and what is not ours, by name
};

// The folder that holds a run's checkpoints, one folder each: `step-00000123`. While a checkpoint is written
// in the background, another thread may scan; entries that change meanwhile can show up as rejected.
class Store {
 public:
  explicit Store(StoreOptions options, FileSystem& file_system = FileSystem::real());

  const StoreOptions& options() const { return options_; }
  FileSystem& file_system() const { return file_system_; }

  Scan scan() const;
  // The newest one that verifies in full. What was passed over on the way, and why, is appended to
  // `rejected`.
  std::optional<Checkpoint> newest_good(std::vector<Rejected>* rejected = nullptr) const;
  // By the metric that was evaluated last (one of another name is not compared), the older one of equals.
  std::optional<Found> best() const;

  // Puts right what a killed run left: half-written folders are removed, and a checkpoint that was about to
  // be replaced comes back. Returns what was done, one line each. Rank 0 calls it before anything is read or
  // written.
  std::vector<std::string> recover();

  // Removes checkpoints up to `step` that are neither among the newest `keep` nor the best. Damaged and
  // foreign entries, and checkpoints beyond `step`, are left alone. Returns the names of those removed.
  std::vector<std::string> prune(uint64_t step);

  std::string path_of(uint64_t step) const;            // step-00000123
  std::string temporary_path_of(uint64_t step) const;  // being written or being removed
  std::string replaced_path_of(uint64_t step) const;   // the older one, while its successor moves in

 private:
  StoreOptions options_;
  FileSystem& file_system_;
};

// "step-00000123" and back; nothing for any other name.
std::string folder_name(uint64_t step);
std::optional<uint64_t> step_of(std::string_view folder_name);

}  // namespace pipeline::checkpoint
