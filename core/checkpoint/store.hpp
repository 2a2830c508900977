#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/file_system.hpp"

namespace pipeline::checkpoint {

struct StoreOptions {
  std::string folder;     // a run's `checkpoints`; created with the first one
  uint64_t keep = 3;      // the newest ones; 0: all
  bool keep_best = true;  // and the one with the best metric
};

struct Found {
  uint64_t step;
  std::string path;
  std::optional<Metric> metric;
};

struct Scan {
  std::vector<Found> checkpoints;  // newest first; manifest and file sizes checked, checksums not
  std::vector<Rejected> rejected;  // damaged checkpoints and foreign entries, by name
};

// The folder of a run's checkpoints, each in a folder of its own: `step-00000123`. While a checkpoint is
// written in the background, another thread may scan; entries that change meanwhile may be listed as
// rejected.
class Store {
 public:
  explicit Store(StoreOptions options, FileSystem& file_system = FileSystem::real());

  const StoreOptions& options() const { return options_; }
  FileSystem& file_system() const { return file_system_; }

  Scan scan() const;
  // The newest checkpoint that verifies in full. Appends those it skipped, with reasons, to `rejected`.
  std::optional<Checkpoint> newest_good(std::vector<Rejected>* rejected = nullptr) const;
  // Returns the best checkpoint by the metric evaluated last (metrics of other names are not compared); of
  // equals, the older.
  std::optional<Found> best() const;

  // Repairs what a killed run left: removes half-written folders and restores a checkpoint that was about
  // to be replaced. Returns what it did, one line each. Rank 0 calls it before anything is read or written.
  std::vector<std::string> recover();

  // Removes checkpoints up to `step` that are neither among the newest `keep`, nor the best, nor the newest
  // sound one. Damaged and foreign entries, and checkpoints beyond `step`, are left alone. Returns the names
  // of the removed ones.
  std::vector<std::string> prune(uint64_t step);

  // Checkpoints up to `step` are known to be good: those after it may have been ruined by the last update.
  // Not while a checkpoint is written.
  void set_sound(uint64_t step) { sound_ = step; }
  // The newest that is known to be good.
  std::optional<Found> newest_sound() const;
  // Renames the checkpoints after the newest sound one, up to `step`, so that nothing goes on from them; none
  // where no other is left. Returns their new names.
  std::vector<std::string> set_aside(uint64_t step);

  std::string path_of(uint64_t step) const;            // step-00000123
  std::string temporary_path_of(uint64_t step) const;  // being written or being removed
  std::string replaced_path_of(uint64_t step) const;   // the old one, while its successor moves in

 private:
  StoreOptions options_;
  FileSystem& file_system_;
  uint64_t sound_ = 0;
};

// "step-00000123" and back; nothing for any other name.
std::string folder_name(uint64_t step);
std::optional<uint64_t> step_of(std::string_view folder_name);
// Whether the folder is one that recover() brings back where its successor is not complete.
bool is_replaced(std::string_view folder_name);

}  // namespace pipeline::checkpoint
