#pragma once

#include <string>

#include "core/safetensors/error.hpp"

namespace pipeline::safetensors {

// The Error "<what>: <text of errno>", which keeps errno. Call it before anything can change errno.
Error system_error(const std::string& what);

// An open file descriptor, closed in the end.
class Descriptor {
 public:
  // Throws Error with the path if it cannot be opened. New files get mode 0666 minus the umask.
  Descriptor(const std::string& path, int flags);
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  int fd() const { return fd_; }

  // Closes now. Throws on error, which may be the first sign of a lost write (NFS, quota).
  void close(const std::string& path);

 private:
  int fd_;
};

}  // namespace pipeline::safetensors
