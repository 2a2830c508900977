// Locks of files (flock), which end with their process however that ends.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/descriptor.hpp"

namespace pipeline {

// Whether the file is still the one that is open: somebody may have renamed or removed it, and made another.
bool is_still(const std::filesystem::path& file, int fd);

// The file, made if need be, locked as long as it is open; nothing where another process has it, and then
// `owner` says which one: "process 12 on host". Throws write_error().
std::optional<Descriptor> lock_file(const std::filesystem::path& file, std::string& owner,
                                    std::string_view remedy = {});

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
  Descriptor held_;
};

}  // namespace pipeline
