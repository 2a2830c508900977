#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "plugins/tasks/summarization/data/files.hpp"

namespace pipeline::summarization {

// A file of pairs as it was when it was hashed.
struct SourceFile {
  std::string path;
  uint64_t bytes = 0;
  std::filesystem::file_time_type time;
  Hash128 hash;  // of the content
};

// Reads the whole file for its hash. `on_block` (optional) is called often and may throw to stop. Throws
// DataError if the file cannot be read.
SourceFile hash_source(const std::string& path,
                       const std::function<void(uint64_t done, uint64_t total)>& on_block = nullptr);

// Throws DataError if the file has changed since it was hashed.
void check_unchanged(const SourceFile& file);

}  // namespace pipeline::summarization
