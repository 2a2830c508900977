#include "core/train/session/run_folder.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "core/base/files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".lock";
constexpr const char* kFinished = "finished.txt";
constexpr const char* kDiverged = "diverged.txt";

[[noreturn]] void fail(const fs::path& path, const char* what) {
  const int error = errno;
  throw Error(error == ENOSPC || error == EDQUOT ? PL_ERROR_NO_SPACE : PL_ERROR_FAILED,
              fmt::format("{}: {}: {}", path.string(), what, std::strerror(error)));
}

// True if it was not there.
bool create(const fs::path& folder) {
  std::error_code error;
  const bool is_new = fs::create_directories(folder, error);
  errno = error.value();
  if (error) fail(folder, "cannot be created");
  return is_new;
}

fs::path free_name(const fs::path& path) {
  for (int i = 1;; ++i) {
    fs::path candidate = path.string() + "." + std::to_string(i);
    if (!fs::exists(candidate)) return candidate;
  }
}

// Anything but what a run has before it begins, here or in the folder of a stage.
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
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Descriptor lock(const fs::path& path) {
  const fs::path file = path / kLock;
  Descriptor held(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!held) fail(file, "cannot be created, so the run has no place: choose another run.dir");
  if (::flock(held.fd(), LOCK_EX | LOCK_NB) != 0) {
    char owner[32] = {};
    const ssize_t size = ::read(held.fd(), owner, sizeof owner - 1);
    throw Error(
        PL_ERROR_CONFIG,
        fmt::format("run.dir = {}: is in use by process {}: wait for it, stop it, or choose another run.dir",
                    path.string(), size > 0 ? owner : "of another host"));
  }
  const std::string me = std::to_string(::getpid());
  if (::ftruncate(held.fd(), 0) != 0 || ::write(held.fd(), me.data(), me.size()) < 0)
    fail(file, "cannot be written");
  return held;
}

}  // namespace

RunFolder::RunFolder(fs::path path, bool fresh) : path_(std::move(path)) {
  if (fs::exists(path_) && !fs::is_directory(path_))
    throw Error(PL_ERROR_CONFIG, fmt::format("run.dir = {}: is a file, must be a folder", path_.string()));
  const bool ours = fs::exists(path_ / kLock);
  if (!ours && fs::exists(path_) && !fs::is_empty(path_))
    throw Error(PL_ERROR_CONFIG,
                fmt::format("run.dir = {}: holds files that are not of a run: choose another run.dir",
                            path_.string()));
  if (ours && fresh) {
    const Descriptor old = lock(path_);  // not under a running process's feet
    moved_aside_ = free_name(path_);
    fs::rename(path_, *moved_aside_);
  }
  create(path_);
  lock_ = lock(path_);
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

std::optional<std::string> RunFolder::finished() const { return read_file(kFinished); }
void RunFolder::mark_finished(const std::string& how) const { write_file(kFinished, how); }

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

}  // namespace pipeline::train
