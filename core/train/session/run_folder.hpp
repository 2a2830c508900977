// The folder of one run (or of one stage of it): what is in it, whether it may be used, and whose it is at
// the moment.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/base/file_lock.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/config/config.hpp"
#include "core/observe/log.hpp"

namespace pipeline::train {

class RunFolder {
 public:
  // Prefix of files by which ranks see that they share the folder; gone again before anything begins.
  static constexpr std::string_view kMarkPrefix = ".seen-";
  // Says which launch began with --fresh.
  static constexpr const char* kBegunBy = "begun-by.txt";

  // Makes the folder if needed and locks it: a second process in it is an error that names the first.
  // `fresh`: an older run in it is moved aside to `<path>.1` (.2, ...). A folder with other people's files in
  // it is refused. Throws pipeline::Error.
  RunFolder(std::filesystem::path path, bool fresh);
  // The folder as a rank other than the first one sees it, which made and locked it: to read from, and for
  // the files of its own.
  static RunFolder of_first_rank(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path evaluations() const { return path_ / "eval.jsonl"; }

  // What has happened to the folder since; empty: it is still there, and this process's own.
  std::string lost() const;
  // Whether the folder still has its path.
  bool is_in_place() const;
  // Makes the lock anew if it was removed, without which the folder would not be taken for a run's.
  void lock_again();

  // Where an older run was moved to, if it was.
  const std::optional<std::filesystem::path>& moved_aside() const { return moved_aside_; }

  // Puts the older run back in its place where the new one has nothing but logs: a mistake in the options or
  // the data should not cost anything. True if that was done; this object is of no use then.
  bool put_back_unless_begun();

  // What mark_finished() was told, if the run is complete. A run that goes on is no longer finished; nor is
  // one whose folder is lost, which is an error.
  std::optional<std::string> finished() const { return finished_in(path_); }
  static std::optional<std::string> finished_in(const std::filesystem::path& path);
  void mark_finished(const std::string& how) const;
  void unmark_finished() const;
  // What mark_diverged() was told, if the run has diverged.
  std::optional<std::string> diverged() const { return diverged_in(path_); }
  static std::optional<std::string> diverged_in(const std::filesystem::path& path);
  void mark_diverged(const std::string& how) const;
  void unmark_diverged() const;

  // For a verb that writes into the folder of a run that may be in use by another process: makes the folder
  // if needed, so that a later run takes it for its own.
  static void make(const std::filesystem::path& path);

  // A small file of the folder; nullopt if it is not there.
  std::optional<std::string> read_file(const std::string& name) const;

  // Writes a small file whole or not at all.
  void write_file(const std::string& name, std::string_view content) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::optional<std::filesystem::path> moved_aside_;
  FileLock lock_;
  Descriptor open_;  // the folder
};

// What a user changed on the way (run --change): it stays in force in later launches, which do not name it. A
// checkpoint holds it; until the first one is there, changes.json does.

// The configuration with what was changed before the checkpoint with these contents, which was written under
// it. What the user has set to yet another value since is left for require_resumable() to judge. `log`: says
// where the file still has the value of the beginning; nullptr: nobody is told.
config::Config with_changes(config::Config config, const checkpoint::Contents& contents, observe::Log* log);

// The configuration with what was changed by the newest checkpoint in the run's folder, or with what waits
// for the first one, whatever is in its other files.
config::Config with_changes(config::Config config, const std::filesystem::path& folder);

// What was changed before the first checkpoint in the run's folder, without the rest of one.
checkpoint::Contents changed_before_first(const std::filesystem::path& folder);

// All that was changed, for a run that begins with `config`; --change counts from its first step on.
std::vector<checkpoint::Change> changes_from_start(const config::Config& config,
                                                   const std::filesystem::path& folder);

// Writes the run's changes.json, for people, and for a launch that comes before the first checkpoint.
void write_changes(const std::filesystem::path& folder, const std::vector<checkpoint::Change>& changes);

// Writes it for a run that another one of the same launch comes before; not where it has checkpoints.
void keep_changes_for_later(const config::Config& config, const std::filesystem::path& folder);

}  // namespace pipeline::train
