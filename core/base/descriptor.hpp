#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

namespace pipeline {

// A descriptor of the operating system, closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  explicit operator bool() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  // Gives up the descriptor, for another owner.
  int release() { return std::exchange(fd_, -1); }
  // False: errno says what may be the first sign of a lost write (NFS, quota).
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Writes `left` and takes off what was written. False: errno says why that is not all.
inline bool write_all(int fd, std::span<const std::byte>& left) {
  while (!left.empty()) {
    const ssize_t wrote = ::write(fd, left.data(), left.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    left = left.subspan(static_cast<size_t>(wrote));
  }
  return true;
}

}  // namespace pipeline
