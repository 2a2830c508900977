#include "plugins/tasks/common/files/mapped_file.hpp"

#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/tasks/common/files/error.hpp"

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

MappedFile::MappedFile(int fd, uint64_t bytes, const std::string& path) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    throw system_error(path, "it must be on a file system whose files can be mapped into memory");
  bytes_ = {static_cast<const char*>(data), bytes};
}

MappedFile MappedFile::whole(const std::string& path, const std::string& remedy) {
  const OpenFile file(path);
  const int64_t bytes = file.is_open() ? file.bytes() : -1;
  if (bytes < 0) throw system_error(path, remedy);
  return MappedFile(file.fd(), static_cast<uint64_t>(bytes), path);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace pipeline::files
