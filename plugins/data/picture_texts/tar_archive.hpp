// Tar archives as folders: read from the start, or one file by its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/descriptor.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"

struct archive;

namespace pipeline::picture_texts {

inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;  // of a file that is read as a whole, a picture

// One file after the other, of an archive that is whole and not compressed: every header has its sum, no name
// is there twice, and after the last file come the zeros that end an archive. Not safe for concurrent use.
class TarReader {
 public:
  // `position`: of a file, as position() gave it; 0: the first. Throws files::DataError, as all here do.
  explicit TarReader(const std::filesystem::path& path, uint64_t position = 0);

  // On to the next file or link; false at the end. Folders and devices are passed over.
  bool next();
  const std::string& name() const { return name_; }
  // Place and size of the file; for a hard link, of the file it stands for, which must have come before.
  uint64_t position() const { return position_; }
  uint64_t bytes() const { return bytes_; }
  // What is wrong with a link that stands for no file here, in a clause. read() throws it.
  const std::string& problem() const { return problem_; }
  // The file's content, once.
  std::vector<std::byte> read();

 private:
  void check_end(const std::string& where) const;
  [[noreturn]] void fail(const std::string& where, const std::string& problem) const;

  std::filesystem::path path_;
  Descriptor file_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  uint64_t start_, position_ = 0, bytes_ = 0;
  std::string name_, problem_;
  bool is_elsewhere_ = false;  // the content: that of a hard link
  std::unordered_map<files::Hash128, std::pair<uint64_t, uint64_t>> files_;  // position and bytes
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
  // Throws DataError also if several archives have it, or if it is a link to nothing in its archive.
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

}  // namespace pipeline::picture_texts
