#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace pipeline::files {

// What changes when a file's content does: equal states mean the same content, as long as the last change
// lies further back than the file system's clock ticks (settled_at).
struct FileState {
  uint64_t bytes = 0;
  int64_t changed = 0,
          modified =
              0;  // ctime and mtime, nanoseconds since 1970; ctime moves even where a tool puts mtime back
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

}  // namespace pipeline::files
