#include "plugins/data/files/cache_folder.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/regular_file.hpp"

namespace pipeline::files {
namespace {

namespace fs = std::filesystem;

constexpr int kDays = 30;
constexpr const char* kRemedy = "remove it: it is made again";

uint64_t bytes_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return fs::file_size(path, ignored);
  uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(path, ignored)) sum += bytes_of(entry.path());
  return sum;
}

// Opens the lock file, in a folder that may have to be made first.
int open_lock(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error)
    throw DataError(fs::path(path).parent_path().string() + ": " + error.message() +
                        ": the cache folder must be writable",
                    error.value());
  return open_regular(path, O_RDWR | O_CREAT, kRemedy);
}

// Removes the lock file that a killed process has left.
void remove_lock(const std::string& path) {
  try {
    const FileLock ours(path, nullptr, [] { return true; });
  } catch (const Cancelled&) {  // the lock is held
  } catch (const DataError&) {  // the lock is not ours to remove
  }
}

}  // namespace

FileLock::FileLock(const std::string& path, const std::function<void()>& waiting,
                   const std::function<bool()>& cancelled)
    : path_(path) {
  bool told = false;
  const auto tell_once = [&] {
    if (!std::exchange(told, true) && waiting) waiting();
  };
  while (!lock(tell_once, cancelled)) {
  }
}

// False: whoever held it has removed the file.
bool FileLock::lock(const std::function<void()>& waiting, const std::function<bool()>& cancelled) {
  Descriptor file(open_lock(path_));
  if (!file)
    throw system_error(path_, errno == EISDIR ? kRemedy : "the cache folder must exist and be writable");
  while (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK)
      throw system_error(path_, "the cache folder must be on a file system with file locks");
    waiting();
    if (cancelled && cancelled()) throw Cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  struct stat own {
  }, there{};
  if (::fstat(file.fd(), &own) != 0 || ::stat(path_.c_str(), &there) != 0 || own.st_ino != there.st_ino ||
      own.st_dev != there.st_dev)
    return false;
  fd_ = file.release();
  return true;
}

FileLock::~FileLock() {
  ::unlink(path_.c_str());  // before it is released: what has the name then is another's
  ::close(fd_);
}

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

void mark_used(const std::string& path) {
  std::error_code ignored;  // a cache that may only be read is used, too
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
}

std::string remove_unused(const std::string& folder, const std::regex& names) {
  const auto oldest = fs::file_time_type::clock::now() - std::chrono::hours(24 * kDays);
  std::string removed;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!std::regex_match(name, names) || entry.last_write_time(error) >= oldest || error) continue;
    if (name.ends_with(".lock")) {
      remove_lock(entry.path());
      continue;
    }
    const uint64_t bytes = bytes_of(entry.path());
    fs::remove_all(entry.path(), error);  // gone already, or not ours to remove: nothing is lost
    if (!error) removed += (removed.empty() ? "" : ", ") + name + " (" + megabytes(bytes) + ")";
  }
  if (removed.empty()) return "";
  return "removed from " + folder + ", because nothing has used it for " + std::to_string(kDays) +
         " days: " + removed;
}

}  // namespace pipeline::files
