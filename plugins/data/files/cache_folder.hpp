#pragma once

#include <cstdint>
#include <functional>
#include <regex>
#include <string>

namespace pipeline::files {

// Holds a lock file (flock) while it lives, so that one process of a machine (or of a shared file system)
// does the work and the others wait for it. The kernel releases it when the process ends, however it ends.
// The file goes with the lock; who has waited for a removed one locks the next of the same name.
class FileLock {
 public:
  // Makes the folder, and waits as long as it takes. `waiting` (optional) is called once if another process
  // holds it; `cancelled` (optional) is asked several times a second and ends the wait with Cancelled. Throws
  // DataError if the folder or the file cannot be created.
  FileLock(const std::string& path, const std::function<void()>& waiting,
           const std::function<bool()>& cancelled);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  bool lock(const std::function<void()>& waiting, const std::function<bool()>& cancelled);

  std::string path_;
  int fd_ = -1;
};

// "12.3 MB"
std::string megabytes(uint64_t bytes);

// An entry of a cache folder counts as used when it is written and when this is called for it.
void mark_used(const std::string& path);

// Removes the entries of the folder that nothing has used for 30 days and whose whole name matches: others'
// entries in the folder are not the caller's to remove; nor are lock files that somebody holds. A line for
// the log that names what was removed and its size; empty if there was nothing.
std::string remove_unused(const std::string& folder, const std::regex& names);

}  // namespace pipeline::files
