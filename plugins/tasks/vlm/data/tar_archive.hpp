// Tar archives as folders: read from the start, or one file by its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/common/files/hash128.hpp"

struct archive;

namespace pipeline::vlm {

// One file after the other, of an archive that is not compressed. Not safe for concurrent use.
class TarReader {
 public:
  // `position`: of a file, as position() gave it; 0: the first. Throws files::DataError, as all here do.
  explicit TarReader(const std::filesystem::path& path, uint64_t position = 0);
  ~TarReader();
  TarReader(const TarReader&) = delete;
  TarReader& operator=(const TarReader&) = delete;

  // On to the next file; false at the end. What is not a file is passed over.
  bool next();
  const std::string& name() const { return name_; }
  uint64_t position() const { return position_; }
  uint64_t bytes() const { return bytes_; }
  // The file's content, once.
  std::vector<std::byte> read();

 private:
  [[noreturn]] void fail(const std::string& doing);

  std::filesystem::path path_;
  int fd_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  uint64_t start_, position_ = 0, bytes_ = 0;
  std::string name_;
};

// The *.tar files of a folder, in the order of their names.
std::vector<std::filesystem::path> tar_archives(const std::filesystem::path& folder);

// Where each file of several archives lies: 32 bytes a file. Immutable, and so safe for concurrent use.
class TarIndex {
 public:
  // Reads the archives' headers. Throws DataError, or Cancelled.
  explicit TarIndex(std::vector<std::filesystem::path> archives, const files::Hooks& hooks = {});

  bool empty() const { return entries_.empty(); }
  // `name`: within an archive, or after the archive's file name and a slash. Nothing if no archive has it.
  // Throws DataError also if several archives have it.
  std::optional<std::vector<std::byte>> read(std::string_view name) const;

 private:
  struct Entry {
    files::Hash128 name;
    uint64_t position;
    uint32_t archive;
  };

  std::vector<std::filesystem::path> archives_;
  std::vector<Entry> entries_;  // by name, then by archive
};

}  // namespace pipeline::vlm
