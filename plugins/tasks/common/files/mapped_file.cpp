#include "plugins/tasks/common/files/mapped_file.hpp"

#include <sys/mman.h>

#include <utility>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/open_file.hpp"

namespace pipeline::files {

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
