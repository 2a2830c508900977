#include "core/train/session/run_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include <fcntl.h>
#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/checkpoint/store.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLock = ".lock";
constexpr const char* kFinished = "finished.txt";
constexpr const char* kDiverged = "diverged.txt";

[[noreturn]] void fail_at(const fs::path& path, const char* what) {
  const int error = errno;
  fail(error == ENOSPC || error == EDQUOT ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED, "{}: {}: {}", path.string(),
       what, std::strerror(error));
}

// Makes the folder; true if it was not there.
bool create(const fs::path& folder) {
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  errno = error.value();
  if (error) fail_at(folder, "cannot be created");
  return is_new;
}

fs::path free_name(const fs::path& path) {
  for (int i = 1;; ++i) {
    fs::path candidate = path.string() + "." + std::to_string(i);
    if (!fs::exists(candidate)) return candidate;
  }
}

// Whether there is anything but what a run has before it begins, here or in the folder of a stage.
bool has_results(const fs::path& path) {
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename();
    const bool is_stage = fs::exists(entry.path() / kLock);
    if (name == kLock || name == "train.log" || name == "logs" || name == "config.toml" ||
        ((name == "wandb" || name == "mlflow") && !is_stage) || name == RunFolder::kBegunBy ||
        name.starts_with(RunFolder::kMarkPrefix))
      continue;
    if (!is_stage || has_results(entry.path())) return true;
  }
  return false;
}

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return rest_of(in);
}

FileLock lock(const fs::path& path) {
  std::string owner;
  if (auto held = lock_file(path / kLock, owner, "choose another run.dir")) return std::move(*held);
  fail(PL_ERROR_CONFIG, "run.dir = {}: is in use by {}: wait for it, stop it, or choose another run.dir",
       path.string(), owner);
}

}  // namespace

RunFolder::RunFolder(fs::path path, bool fresh) : path_(std::move(path)) {
  if (fs::exists(path_) && !fs::is_directory(path_))
    fail(PL_ERROR_CONFIG, "run.dir = {}: is a file, must be a folder", path_.string());
  const bool ours = fs::exists(path_ / kLock);
  if (!ours && fs::exists(path_) && !fs::is_empty(path_))
    fail(PL_ERROR_CONFIG, "run.dir = {}: holds files that are not of a run: choose another run.dir",
         path_.string());
  if (ours && fresh) {
    const FileLock old = lock(path_);  // not under a running process's feet
    moved_aside_ = free_name(path_);
    fs::rename(path_, *moved_aside_);
  }
  create(path_);
  lock_ = lock(path_);
  open_ = Descriptor(::open(path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

bool RunFolder::is_in_place() const { return !open_ || is_still(path_, open_.fd()); }

void RunFolder::lock_again() {
  if (lock_ && !is_still(path_ / kLock, lock_.fd())) lock_ = lock(path_);
}

std::string RunFolder::lost() const {
  if (is_in_place()) {
    if (!lock_ || is_still(path_ / kLock, lock_.fd())) return "";
    return fmt::format("{}: was removed while the run uses its folder, so that others could, too",
                       (path_ / kLock).string());
  }
  std::error_code error;
  const std::string now = fs::read_symlink(fmt::format("/proc/self/fd/{}", open_.fd()), error).string();
  return now.empty() || now.ends_with(" (deleted)")
             ? fmt::format("{}: was removed while the run uses it: its checkpoints and records are lost",
                           path_.string())
             : fmt::format(
                   "{}: was moved to {} while the run uses it: move it back, and the same command goes on "
                   "from its last checkpoint",
                   path_.string(), now);
}

RunFolder RunFolder::of_first_rank(fs::path path) { return RunFolder(std::move(path)); }

bool RunFolder::put_back_unless_begun() {
  if (!moved_aside_ || has_results(path_)) return false;
  const fs::path unused = free_name(path_);
  fs::rename(path_, unused);
  fs::rename(*moved_aside_, path_);
  moved_aside_.reset();
  std::error_code ignored;  // logs may be open in it
  fs::remove_all(unused, ignored);
  return true;
}

std::optional<std::string> RunFolder::read_file(const std::string& name) const {
  return text_of(path_ / name);
}

std::optional<std::string> RunFolder::finished_in(const fs::path& path) { return text_of(path / kFinished); }
void RunFolder::mark_finished(const std::string& how) const {
  if (const std::string problem = lost(); !problem.empty()) throw Error(problem);
  write_file(kFinished, how);
}

void RunFolder::unmark_finished() const { fs::remove(path_ / kFinished); }

std::optional<std::string> RunFolder::diverged_in(const fs::path& path) { return text_of(path / kDiverged); }
void RunFolder::mark_diverged(const std::string& how) const { write_file(kDiverged, how); }
void RunFolder::unmark_diverged() const { fs::remove(path_ / kDiverged); }

void RunFolder::make(const fs::path& path) {
  if (create(path)) lock(path);
}

void RunFolder::write_file(const std::string& name, std::string_view content) const {
  write_atomically(path_ / name, content);
}

config::Config with_changes(config::Config config, const checkpoint::Contents& contents, observe::Log* log) {
  std::map<std::string, const checkpoint::Change*> last;
  for (const checkpoint::Change& change : contents.changes) last[change.key] = &change;
  const auto stored = config::stored_values(contents.config_toml);
  for (const auto& [key, change] : last) {
    const std::string given = config.show(key);
    const auto in_force = stored.find(key);
    // Not where it is named once more, or was changed otherwise since.
    if (config.origin(key).kind == config::Origin::Kind::kChange || config::same_value(given, change->now) ||
        (!stored.empty() &&
         !config::same_value(in_force == stored.end() ? "" : in_force->second, change->now)))
      continue;
    const bool is_older =
        std::ranges::any_of(contents.changes, [&, key = key](const checkpoint::Change& other) {
          return other.key == key && config::same_value(other.before, given);
        });
    if (!is_older) continue;
    const std::string when = fmt::format("after step {}", change->step);
    if (log != nullptr)
      log->info(fmt::format("{} = {}, as changed {} ({}: {}; --change changes it again)", key,
                            config::or_not_set(change->now), when, config.origin(key).describe(),
                            config::or_not_set(given)));
    config = config.with_changed(key, change->now, when);
  }
  return config;
}

namespace {

constexpr const char* kFile = "changes.json";

checkpoint::Scan checkpoints_in(const fs::path& folder) {
  return checkpoint::Store({.folder = (folder / "checkpoints").string()}).scan();
}

}  // namespace

config::Config with_changes(config::Config config, const fs::path& folder) {
  const checkpoint::Scan scan = checkpoints_in(folder);
  return with_changes(std::move(config),
                      scan.checkpoints.empty()
                          ? changed_before_first(folder)
                          : checkpoint::read_manifest(scan.checkpoints.front().path).contents,
                      nullptr);
}

checkpoint::Contents changed_before_first(const fs::path& folder) {
  checkpoint::Contents contents;
  const fs::path path = folder / kFile;
  if (is_there(path)) contents.changes = checkpoint::parse_changes(read_file(path), path.string());
  // Where checkpoints were taken away: what counted from one of them on.
  std::erase_if(contents.changes, [](const checkpoint::Change& change) { return change.step > 0; });
  return contents;
}

std::vector<checkpoint::Change> changes_from_start(const config::Config& config, const fs::path& folder) {
  const checkpoint::Contents contents = changed_before_first(folder);
  const config::Config before = with_changes(config.without_changes(), contents, nullptr);
  std::vector<checkpoint::Change> changes = contents.changes;
  for (const config::Row& row : config.rows())
    if (row.by_name && row.origin.kind == config::Origin::Kind::kChange &&
        !config::same_value(before.show(row.key), row.value))
      changes.push_back({0, row.key, before.show(row.key), row.value});
  return changes;
}

void write_changes(const fs::path& folder, const std::vector<checkpoint::Change>& changes) {
  if (!changes.empty() || fs::exists(folder / kFile))
    write_atomically(folder / kFile, checkpoint::format_changes(changes));
}

void keep_changes_for_later(const config::Config& config, const fs::path& folder) {
  if (!checkpoints_in(folder).checkpoints.empty()) return;
  const std::vector<checkpoint::Change> changes = changes_from_start(config, folder);
  if (changes.empty()) return;
  RunFolder::make(folder);
  write_changes(folder, changes);
}

}  // namespace pipeline::train
