#include "core/base/file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/base/program.hpp"
#include "core/base/socket.hpp"

namespace pipeline {
namespace {

namespace fs = std::filesystem;

std::string owner_in(int fd) {
  char text[300] = {};
  return ::pread(fd, text, sizeof text - 1, 0) > 0 ? std::string("process ") + text : "another process";
}

fs::path lock_of(const fs::path& place) {
  return place.parent_path() / ("." + place.filename().string() + ".lock");
}

// The process that holds the lock `file`; empty: none.
std::string owner_of(const fs::path& file) {
  const Descriptor open(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return open && ::flock(open.fd(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK ? owner_in(open.fd())
                                                                                    : "";
}

// The process that writes a result whose folder is around `place` or inside of it; empty: none.
std::string owner_near(const fs::path& place) {
  for (fs::path folder = place.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    if (std::string owner = owner_of(lock_of(folder)); !owner.empty()) return owner;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(place, error), end; !error && entry != end;
       entry.increment(error))
    if (const std::string name = entry->path().filename(); name.starts_with('.') && name.ends_with(".lock"))
      if (std::string owner = owner_of(entry->path()); !owner.empty()) return owner;
  return "";
}

}  // namespace

bool is_still(const fs::path& file, int fd) {
  struct stat here {};
  struct stat there {};
  if (::stat(file.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR;
  return ::fstat(fd, &here) != 0 || (here.st_ino == there.st_ino && here.st_dev == there.st_dev);
}

FileLock::~FileLock() {
  if (held_) ::flock(held_.fd(), LOCK_UN);
}

std::optional<FileLock> lock_file(const fs::path& file, std::string& owner, std::string_view remedy,
                                  const fs::path& shown) {
  const auto fail = [&] { throw write_error(shown.empty() ? file : shown, errno, remedy); };
  constexpr auto kPatience = std::chrono::milliseconds(200);  // one that only looks holds it for a moment
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    Descriptor held(above_standard(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)));
    if (!held) fail();
    if (::flock(held.fd(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail();
      owner = owner_in(held.fd());
      if (std::chrono::steady_clock::now() >= end) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    if (!is_still(file, held.fd())) continue;  // its last owner has removed it
    const std::string me = fmt::format("{} on {}", ::getpid(), host_name());
    std::span<const std::byte> left = std::as_bytes(std::span(me));
    if (::ftruncate(held.fd(), 0) != 0 || !write_all(held.fd(), left)) fail();
    return FileLock(std::move(held));
  }
}

OutputLock::OutputLock(const fs::path& output, const fs::path& place, std::string_view remedy) {
  std::string owner;
  on_disk(remedy, [&] {
    const fs::path folder = fs::weakly_canonical(fs::absolute(place));
    fs::create_directories(folder.parent_path());
    file_ = lock_of(folder);
    if (auto held = lock_file(file_, owner, remedy, output)) {
      held_ = std::move(*held);
      owner = owner_near(folder);
    }
  });
  if (owner.empty()) return;
  if (held_) fs::remove(file_);
  fail(PL_ERROR_CONFIG, "{}: {} writes there: wait for it, stop it, or {}", output.string(), owner,
       remedy.empty() ? "write elsewhere" : remedy);
}

OutputLock::~OutputLock() {
  std::error_code ignored;
  // The file goes before it is unlocked: the next owner makes another.
  if (is_still(file_, held_.fd())) fs::remove(file_, ignored);
}

}  // namespace pipeline
