#include "plugins/tasks/common/files/open_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pipeline::files {

OpenFile::OpenFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

int64_t OpenFile::bytes() const {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 ? status.st_size : -1;
}

}  // namespace pipeline::files
