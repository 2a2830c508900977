#pragma once

#include <functional>
#include <string>

namespace pipeline::files {

// Holds a lock file (flock) while it lives, so that one process of a machine (or of a shared file system)
// does the work and the others wait for it. The kernel releases it when the process ends, however it ends.
// The file stays: removing it would let two processes hold locks on two files of one name.
class FileLock {
 public:
  // Waits as long as it takes. `waiting` (optional) is called once if another process holds it; `cancelled`
  // (optional) is asked several times a second and ends the wait with Cancelled. Throws DataError if the file
  // cannot be created.
  FileLock(const std::string& path, const std::function<void()>& waiting,
           const std::function<bool()>& cancelled);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

}  // namespace pipeline::files
