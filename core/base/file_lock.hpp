// Locks of files (flock), which end with their process however that ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/descriptor.hpp"

namespace pipeline {

// Whether the file is still the one that is open: somebody may have renamed or removed it, and made another.
// True where that cannot be told, as while a file system does not answer.
bool is_still(const std::filesystem::path& file, int fd);

// A file that is locked. It is unlocked with its owner, also where a child that was forked has it open.
class FileLock {
 public:
  explicit FileLock(Descriptor held = Descriptor()) : held_(std::move(held)) {}
  ~FileLock();
  FileLock(FileLock&&) = default;
  FileLock& operator=(FileLock&&) = default;

  explicit operator bool() const { return static_cast<bool>(held_); }
  int fd() const { return held_.fd(); }

 private:
  Descriptor held_;
};

// Locks a file, made if need be, as long as it is open. Nothing where another process has it: then `owner`
// says which one, "process 12 on host". Throws write_error(); `shown`: the path that it names, where the lock
// is for that.
std::optional<FileLock> lock_file(const std::filesystem::path& file, std::string& owner,
                                  std::string_view remedy = {}, const std::filesystem::path& shown = {});

// While it lives no other process writes the same result, a result around it or one inside of it: what they
// write is made of parts, and would be mixed. Its file, a hidden one beside the result, goes with it; one
// that a killed process has left stops nobody.
class OutputLock {
 public:
  // `output`, for messages. `place`: the folder that it fills or replaces, which need not be there. Throws
  // Error with the other process and what to do: `remedy`, as in "choose another --output".
  OutputLock(const std::filesystem::path& output, const std::filesystem::path& place,
             std::string_view remedy);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  std::filesystem::path file_;
  FileLock held_;
};

}  // namespace pipeline
