#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace pipeline::files {

// A file that is open for reading, so that it can be asked later how long it is now, whatever its name stands
// for by then.
class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(const std::string& path);  // errno says why, where is_open() is false
  OpenFile(OpenFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  int64_t bytes() const;  // -1 if nobody can say, and errno says why [any-thread]

 private:
  int fd_ = -1;
};

}  // namespace pipeline::files
