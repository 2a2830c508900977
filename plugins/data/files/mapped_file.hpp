#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace pipeline::files {

// A file that is open for reading, so that it can be asked later how long it is now, whatever its name stands
// for by then; and its first bytes, mapped: no memory of its own, pages shared between processes. Safe for
// concurrent use once they are. The file may grow or be replaced meanwhile; it must not get shorter than what
// is mapped.
class MappedFile {
 public:
  MappedFile() = default;
  // errno says why, where is_open() is false. Throws DataError for what is no regular file.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  int64_t length() const;  // -1 if it is not known, and errno says why
  // False if the file cannot be mapped, and errno says why.
  bool map(uint64_t bytes);
  std::string_view bytes() const { return bytes_; }  // aligned to a page
  bool is_all_there() const { return length() >= static_cast<int64_t>(bytes_.size()); }
  // Counts bytes as read. Pages that were read count as the process's memory, so all are given back after
  // some MB: the system keeps the file's content as long as it has room.
  void count_read(uint64_t bytes) const;

 private:
  int fd_ = -1;
  std::string_view bytes_;
  mutable std::atomic<uint64_t> read_ = 0;
};

}  // namespace pipeline::files
