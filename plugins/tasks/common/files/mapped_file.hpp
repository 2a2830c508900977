#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pipeline::files {

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
