#include "plugins/tasks/common/files/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::files {
namespace {

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe (FIFO)" : "a device";
}

}  // namespace

std::string path_problem(const std::filesystem::path& path, std::string_view what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return "";
  if (errno != ENOENT && errno != ENOTDIR) return std::generic_category().message(errno);
  return "there is no such " + std::string(what) +
         "; a path is taken from the folder in which the program is started";
}

int open_regular(const std::string& path, int flags, std::string_view remedy) {
  // Without O_NONBLOCK a pipe waits for its other end, and a signal does not end that.
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
  struct stat status {};
  if (fd < 0) return fd;
  // Writing to a device waits for nobody, and one without room says so.
  const bool is_written = (flags & O_TRUNC) != 0;
  if (::fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || (is_written && S_ISCHR(status.st_mode))))
    return fd;
  ::close(fd);
  throw DataError(path + ": is " + kind_of(status.st_mode) + ", must be a regular file" +
                  (remedy.empty() ? "" : ": " + std::string(remedy)));
}

}  // namespace pipeline::files
