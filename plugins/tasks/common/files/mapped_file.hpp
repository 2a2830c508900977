#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

// The first bytes of a file, mapped for reading: no memory of its own, pages shared between processes.
// Immutable; safe for concurrent use. The file may grow or be replaced meanwhile; it must not get shorter
// than what is mapped.
class MappedFile {
 public:
  MappedFile() = default;
  // Of an open file; the descriptor stays the caller's. Throws DataError, with `path` in it, if that cannot
  // be done.
  MappedFile(int fd, uint64_t bytes, const std::string& path);
  // All of a file as it is now. Throws DataError: `remedy` is what to do if it cannot be opened.
  static MappedFile whole(const std::string& path, const std::string& remedy);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::string_view bytes() const { return bytes_; }  // aligned to a page

 private:
  std::string_view bytes_;
};

}  // namespace pipeline::files
