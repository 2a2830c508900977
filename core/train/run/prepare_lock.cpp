#include "core/train/run/prepare_lock.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/error.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

PrepareLock::PrepareLock(const fs::path& folder, observe::Log& log, const std::function<bool()>& cancelled) {
  constexpr auto kPoll = std::chrono::milliseconds(100);
  std::error_code made;
  fs::create_directories(folder, made);
  if (made)
    throw Error(fmt::format("run.cache_dir = {}: cannot be created: {}: choose another", folder.string(),
                            made.message()));
  const fs::path file = folder / ".prepare.lock";
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    throw Error(fmt::format("{}: cannot be created; the cache folder must be writable", file.string()));
  for (bool said = false; ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0; std::this_thread::sleep_for(kPoll)) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      const int error = errno;
      ::close(descriptor_);
      throw Error(fmt::format("{}: cannot be locked: {}: choose a run.cache_dir on a file system with locks",
                              file.string(), std::strerror(error)));
    }
    if (cancelled && cancelled()) {
      ::close(descriptor_);
      throw Error(PL_ERROR_CANCELLED, "stopped while waiting for another process");
    }
    if (!std::exchange(said, true))
      log.info("waiting for another process that prepares data in " + folder.string());
  }
}

PrepareLock::~PrepareLock() { ::close(descriptor_); }

}  // namespace pipeline::train
