// A file that is appended to, one whole record at a time: what a full disk refused is kept and retried with
// the next record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipeline::observe {

class AppendFile {
 public:
  // Opens for appending; creates the file. Throws std::system_error.
  explicit AppendFile(const std::filesystem::path& file);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // False: the write failed (errno in last_error()); the record is kept for the next try.
  bool append(std::string_view record);
  // Number of records not yet written.
  uint64_t pending() const { return pending_; }
  int last_error() const { return error_; }
  // False: somebody has removed the file or put another in its place, which gets no more records.
  bool is_still_there() const;
  const std::filesystem::path& path() const { return path_; }

 private:
  bool flush();

  std::filesystem::path path_;
  int descriptor_;
  std::string buffer_;
  uint64_t pending_ = 0;
  int error_ = 0;
};

}  // namespace pipeline::observe
