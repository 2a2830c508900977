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

#include "core/base/error.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

Descriptor prepare_lock(const fs::path& folder, observe::Log& log, const std::function<bool()>& cancelled) {
  constexpr auto kPoll = std::chrono::milliseconds(100);
  std::error_code made;
  fs::create_directories(folder, made);
  if (made)
    throw Error(fmt::format("run.cache_dir = {}: cannot be created: {}: choose another", folder.string(),
                            made.message()));
  const fs::path file = folder / ".prepare.lock";
  Descriptor lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock)
    throw Error(fmt::format("{}: cannot be created; the cache folder must be writable", file.string()));
  for (bool said = false; ::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0; std::this_thread::sleep_for(kPoll)) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw Error(fmt::format("{}: cannot be locked: {}: choose a run.cache_dir on a file system with locks",
                              file.string(), std::strerror(errno)));
    if (cancelled && cancelled())
      throw Error(PL_ERROR_CANCELLED, "stopped while waiting for another process");
    if (!std::exchange(said, true))
      log.info("waiting for another process that prepares data in " + folder.string());
  }
  return lock;
}

}  // namespace pipeline::train
