#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace pipeline::files {

// Why nothing can be read at a path that a configuration names, where `what` is expected. Empty: something is
// there.
std::string path_problem(const std::filesystem::path& path, std::string_view what);

// open(2) of a regular file, or of a link to one. Where something else has the name, such as a pipe, which
// would hold us up for good, a DataError says what it is and what to do (`remedy`, a clause). With O_TRUNC it
// may be a device. -1, and errno says why, where nothing can be opened.
int open_regular(const std::string& path, int flags, std::string_view remedy = {});

// pread(2) of so many bytes from `begin` on. How many there are: fewer at the end of the file alone. Throws
// system_error() with `path` and `remedy`.
uint64_t read_at(int fd, uint64_t begin, char* into, uint64_t bytes, const std::string& path,
                 const std::string& remedy);

// All of a file that a model's folder or a cache has, of at most so many bytes. Throws DataError, also for
// what stands in place of such a file (core/base/foreign.hpp); its code is errno where nothing can be opened
// or read.
std::string read_regular(const std::string& path, uint64_t most_bytes);

// The most bytes of a model folder's files: of settings; of a tokenizer's tokens, some 30 MB where they are
// many.
inline constexpr uint64_t kMostSettings = 4 << 20, kMostTokens = 256 << 20;

// Why a file that begins so cannot be read as UTF-8 text, and what to do: it is compressed, a table in
// another format, text in another encoding, or what stands in place of a file (core/base/foreign.hpp). Empty:
// nothing is known against it. The first kStartOfText bytes are enough.
inline constexpr size_t kStartOfText = 512;
std::string why_no_text(std::string_view start);

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
