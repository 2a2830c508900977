#include "core/base/standard_streams.hpp"

#include <cerrno>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace pipeline {
namespace {

constexpr int kStreams = 3;
int kept[kStreams] = {-1, -1, -1};
std::FILE* written[kStreams] = {};  // to stdout and stderr

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// A child that outlives the run, such as a daemon, must not hold what somebody reads to its end.
void close_in_child() {
  for (int fd = 0; fd < kStreams; ++fd) {
    if (kept[fd] >= 0) ::close(kept[fd]);
    kept[fd] = -1;
    written[fd] = nullptr;
  }
}

}  // namespace

StandardStreams::StandardStreams() {
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, close_in_child);
  for (int fd = 0; fd < kStreams; ++fd) {
    if (!is_open(fd)) ::open("/dev/null", O_RDWR);  // open() takes the lowest number that is free
    kept[fd] = ::fcntl(fd, F_DUPFD_CLOEXEC, kStreams);
    if (fd > 0 && kept[fd] >= 0) written[fd] = ::fdopen(kept[fd], "w");
    // What is said before _exit() would stay in a buffer.
    if (fd == STDERR_FILENO && written[fd] != nullptr) std::setvbuf(written[fd], nullptr, _IONBF, 0);
  }
}

StandardStreams::~StandardStreams() {
  for (int fd = 0; fd < kStreams; ++fd) {
    if (written[fd] != nullptr)
      std::fclose(written[fd]);
    else if (kept[fd] >= 0)
      ::close(kept[fd]);
    kept[fd] = -1;
    written[fd] = nullptr;
  }
}

void StandardStreams::restore() {
  for (int fd = 0; fd < kStreams; ++fd)
    if (kept[fd] >= 0 && !is_open(fd)) ::dup2(kept[fd], fd);
}

std::FILE* standard_output() { return written[STDOUT_FILENO] != nullptr ? written[STDOUT_FILENO] : stdout; }
std::FILE* standard_error() { return written[STDERR_FILENO] != nullptr ? written[STDERR_FILENO] : stderr; }

int above_standard(int fd) {
  if (fd < 0 || fd >= kStreams) return fd;
  const int above = ::fcntl(fd, F_DUPFD_CLOEXEC, kStreams), problem = errno;
  ::close(fd);
  errno = problem;
  return above;
}

}  // namespace pipeline
