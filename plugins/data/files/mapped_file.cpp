#include "plugins/data/files/mapped_file.hpp"

#include <algorithm>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/data/files/regular_file.hpp"

namespace pipeline::files {

MappedFile::MappedFile(const std::string& path)
    : fd_(open_regular(path, O_RDONLY, "remove it: it is built again")) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

int64_t MappedFile::length() const {
  struct stat status {};
  return ::fstat(fd_, &status) == 0 ? status.st_size : -1;
}

bool MappedFile::map(uint64_t bytes) {
  if (bytes == 0) return true;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return false;
  bytes_ = {static_cast<const char*>(data), bytes};
  return true;
}

void MappedFile::count_read(uint64_t bytes) const {
  constexpr uint64_t kMost = uint64_t{32} << 20, kAround = uint64_t{64} << 10;  // what Linux maps at once
  bytes = std::max(bytes, kAround);
  if (bytes_.size() <= kMost || read_.fetch_add(bytes) + bytes < kMost) return;
  read_ = 0;
  ::madvise(const_cast<char*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

}  // namespace pipeline::files
