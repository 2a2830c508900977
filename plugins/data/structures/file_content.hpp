#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/data/files/error.hpp"

namespace pipeline::structures {

struct ReadLimits {
  // The most for a file, and for what it unpacks to. Reading mmCIF takes about ten times as much memory; the
  // largest entry of the PDB has 240 MB.
  uint64_t max_file_bytes = uint64_t{256} << 20;
  std::string option = "max_file_bytes";  // what the user calls this limit, for messages
};

// Why a file cannot be used where that is not for its content alone to say.
class ReadError : public files::DataError {
 public:
  enum Cause : uint8_t {
    kKind,     // no file at all: it stays so until its state changes
    kLimit,    // above the limit: it stays so until that changes
    kSystem,   // cannot be opened: it stays so as long as that fails with code()
    kPassing,  // may be all right the next time
  };
  ReadError(const std::string& message, Cause cause, int code = 0)
      : DataError(message, code), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

// What changes when a file's content does: equal states mean the same content, as long as the last change
// lies further back than the file system's clock ticks (settled_at).
struct FileState {
  uint64_t bytes = 0;
  // ctime and mtime, nanoseconds since 1970; ctime moves even where a tool puts mtime back.
  int64_t changed = 0, modified = 0;
  uint64_t inode = 0, device = 0;

  FileState() = default;
  explicit FileState(const struct stat& status)
      : bytes(static_cast<uint64_t>(status.st_size)),
        changed(nanoseconds(status.st_ctim)),
        modified(nanoseconds(status.st_mtim)),
        inode(status.st_ino),
        device(status.st_dev) {}
  bool operator==(const FileState&) const = default;

  // Whether a change after `now` (nanoseconds since 1970) is sure to show: two seconds are the coarsest clock
  // in use.
  bool settled_at(int64_t now) const { return changed < now - kTick && modified < now - kTick; }

 private:
  static constexpr int64_t kTick = 2'000'000'000;
  static int64_t nanoseconds(const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }
};

struct FileContent {
  std::string bytes;
  FileState state;
};

// 0, or the code of the error with which it cannot be opened for reading.
int opening_error(const std::string& path);

// The whole file as it is. Throws ReadError with a reason that does not name the file.
FileContent read_content(const std::string& path, const ReadLimits& limits);

// Whether `bytes` are packed with gzip, and how many bytes they say they unpack to, as most programs write
// it: not to be relied on.
bool is_gzip(std::string_view bytes);
uint64_t gzip_size(std::string_view bytes);

// What `bytes`, packed with gzip, unpack to, whatever the file's name; themselves if they are not packed.
// `unpacked` is the memory that the result may lie in. Throws DataError (damaged, packed otherwise), or
// ReadError (too much), with a reason.
std::string_view unpack(std::string_view bytes, const ReadLimits& limits, std::string& unpacked);

}  // namespace pipeline::structures
