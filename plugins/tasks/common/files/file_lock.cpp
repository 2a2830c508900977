#include "plugins/tasks/common/files/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::files {

FileLock::FileLock(const std::string& path, const std::function<void()>& waiting,
                   const std::function<bool()>& cancelled)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (fd_ < 0)
    throw system_error(path, errno == EISDIR ? "remove it: it is made again"
                                             : "the cache folder must exist and be writable");
  try {
    for (bool told = false; ::flock(fd_, LOCK_EX | LOCK_NB) != 0;) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK)
        throw system_error(path, "the cache folder must be on a file system with file locks");
      if (!told && waiting) waiting();
      told = true;
      if (cancelled && cancelled()) throw Cancelled();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

FileLock::~FileLock() { ::close(fd_); }

}  // namespace pipeline::files
