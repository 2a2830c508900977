#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pipeline::files {

// A file of a cache that is written from some place on. One process at a time: the caller holds a lock.
// Others may have what is before that place mapped. All throws DataError.
class AppendedFile {
 public:
  // A new file, <path>.part, that takes the place of whatever has the name when replace() is called, and goes
  // if it never is; whoever has the old one open keeps it. What a killed process left there is overwritten.
  explicit AppendedFile(const std::string& path);
  // The file itself, from `end` on: what is behind is cut off.
  AppendedFile(const std::string& path, uint64_t end);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  uint64_t end() const { return end_; }
  void append(std::string_view bytes);  // bytes that do not fit on the disk leave nothing
  void sync();                          // waits until all is on the disk
  void replace();                       // syncs, and gives the new file its name

 private:
  void close();

  std::string path_;
  int fd_ = -1;
  bool is_part_ = false;
  uint64_t end_ = 0;
};

}  // namespace pipeline::files
