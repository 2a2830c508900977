#pragma once

#include <string>
#include <utility>

#include "core/safetensors/error.hpp"

namespace pipeline::safetensors {

// "<what>: <text of errno>", with errno kept. Call it before anything else can change errno.
Error system_error(const std::string& what);

// An open file descriptor, closed in the end unless it is borrowed.
class Descriptor {
 public:
  // Throws Error with the path when it cannot be opened. New files get mode 0666 less the umask.
  Descriptor(const std::string& path, int flags);
  static Descriptor borrow(int fd) { return Descriptor(fd, false); }

  Descriptor(Descriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), owned_(std::exchange(other.owned_, false)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~Descriptor();

  int fd() const { return fd_; }

  // Closes now and reports the error, which may be the first sign of a lost write (NFS, quota).
  void close(const std::string& path);

 private:
  Descriptor(int fd, bool owned) : fd_(fd), owned_(owned) {}

  int fd_;
  bool owned_;
};

}  // namespace pipeline::safetensors
