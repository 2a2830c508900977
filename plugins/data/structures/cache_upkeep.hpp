#pragma once

#include <regex>
#include <string>
#include <vector>

#include "plugins/data/stores/record_store.hpp"

namespace pipeline::structures {

// The names of what this task leaves in a cache folder, and what nothing has used for long may be removed of;
// the lock stays.
inline const std::regex& removable_names() {
  static const std::regex names(R"(protein-(structures-[0-9]+\.(cache|index)|files-[0-9a-f]{32}\.index|)"
                                R"(clusters-[0-9a-f]{32}\.bin)(\.part)?|)"
                                R"(protein-unusable-[0-9a-f]{8}\.txt(\.[0-9]+\.part)?)");
  return names;
}

// Files that are written under the lock before they get their names: whoever holds the lock and finds one may
// remove it.
inline const std::regex& part_names() {
  static const std::regex names(R"(protein-(structures-[0-9]+\.cache|files-[0-9a-f]{32}\.index|)"
                                R"(clusters-[0-9a-f]{32}\.bin)\.part)");
  return names;
}

constexpr const char* kLockName = "protein-data.lock";

inline bool is_cache_name(const std::string& name) {
  return name == kLockName || (name.starts_with("protein-") && std::regex_match(name, removable_names()));
}

// What those who open one library use of a folder's caches.
struct CacheUse {
  std::string folder, index;  // the index of their files: what else it names is of files that are no more
  stores::Keys keys;          // of their files
};

// Whether most of the cache is used neither by them nor by those of any other index in the folder.
bool is_mostly_unused(const stores::RecordStore& cache, const CacheUse& use);

// Writes the cache file anew with what is still used, if `damaged`, or if it is mostly unused. `cache` is
// then the new one. A line for the log; empty if nothing was done. The caller holds the lock. Throws
// DataError.
std::string keep_what_is_used(const CacheUse& use, bool damaged, stores::RecordStore& cache);

// Files that processes left in the folder when they ended while writing. Whoever holds the lock removes them;
// throws DataError if that cannot be.
std::vector<std::string> left_over_parts(const std::string& folder);
void remove_left_over_parts(const std::string& folder);

}  // namespace pipeline::structures
