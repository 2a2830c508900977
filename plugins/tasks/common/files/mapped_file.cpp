#include "plugins/tasks/common/files/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::files {

MappedFile::MappedFile(int fd, uint64_t bytes, const std::string& path) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) throw system_error(path, "it must be on a file system whose files can be mapped into memory");
  bytes_ = {static_cast<const char*>(data), bytes};
}

MappedFile MappedFile::whole(const std::string& path, const std::string& remedy) {
  struct Closing {
    int fd;
    ~Closing() { ::close(fd); }
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw system_error(path, remedy);
  const Closing closing{fd};
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw system_error(path, remedy);
  return MappedFile(fd, static_cast<uint64_t>(status.st_size), path);
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
