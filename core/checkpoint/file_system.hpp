#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pipeline::checkpoint {

// A new file, written from front to back. If destroyed before close(), closed without a check.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;  // all of them
  virtual void sync() = 0;                                   // to the disk itself
  virtual void close() = 0;
};

// Everything that changes the disk while checkpoints are written: the seam at which tests make the Nth
// operation fail. Functions throw pipeline::Error with the path, PL_ERROR_NO_SPACE if the disk or the quota
// is full. Safe for concurrent use.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<OutputFile> create(const std::string& path) = 0;  // the file must not exist
  virtual void make_folder(const std::string& path) = 0;  // and the one around it; may exist
  virtual void sync_folder(const std::string& path) = 0;  // makes its entries durable
  // A second name for a file, which must not be changed any more; false where that cannot be.
  virtual bool link(const std::string& from, const std::string& to) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;  // with everything in it; may be gone already
  virtual uint64_t free_bytes(const std::string& folder) = 0;

  static FileSystem& real();
};

bool exists(const std::string& path);
std::vector<std::string> list_folder(
    const std::string& path);                    // names, sorted; empty if there is no such folder
std::string read_text(const std::string& path);  // throws pipeline::Error with the path

}  // namespace pipeline::checkpoint
