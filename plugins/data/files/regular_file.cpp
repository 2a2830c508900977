#include "plugins/data/files/regular_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/base/foreign.hpp"
#include "plugins/data/files/error.hpp"

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

std::string read_regular(const std::string& path, uint64_t most_bytes) {
  const Descriptor file(open_regular(path, O_RDONLY));
  if (!file) throw system_error(path + ": cannot be read", "check the path and its permissions");
  std::string text;
  for (std::vector<char> block(size_t{1} << 16);;) {
    const ssize_t got = ::read(file.fd(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(path + ": cannot be read", "check the disk");
    if (got == 0) break;
    text.append(block.data(), static_cast<size_t>(got));
    if (text.size() > most_bytes)
      throw DataError(path + ": has more than " + std::to_string(most_bytes) +
                      " bytes, which is no size for such a file: check that it is the right one");
  }
  if (const std::string found = foreign::content(std::string_view(text).substr(0, foreign::kStart));
      !found.empty())
    throw DataError(path + ": " + found);
  return text;
}

}  // namespace pipeline::files
