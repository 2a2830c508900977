#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/protein/data/structure_record.hpp"

namespace pipeline::protein {

// What lies where in a cache file, beside it, so that opening the cache need not read it. It may be missing, or be of another file of the
// name: then the cache is read as a whole.
struct StructureDirectory {
  files::Hash128 cache;              // CacheFileHeader::id
  uint64_t end = 0;                  // of what it knows of the file
  std::vector<CacheRecord> records;  // of each key the one that counts, in the file's order

  // <cache file without its ending>.index
  static std::string path_of(const std::string& cache_path);

  // nullopt if there is none for this file, or not one that can be right.
  static std::optional<StructureDirectory> load(const std::string& path, const files::Hash128& cache, uint64_t cache_bytes);
  void save(const std::string& path) const;  // replaces the file at once. Throws DataError
};

}  // namespace pipeline::protein
