#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "plugins/tasks/protein/data/structure_cache.hpp"

namespace pipeline::protein {

using Keys = std::unordered_set<files::Hash128, KeyHash>;

// What is used of the caches in a folder by those who open one library of it.
struct CacheUse {
  std::string folder, index;  // the index of their files: what else it names is of files that are no more
  Keys keys;                  // of their files
};

// Whether the cache is large and less than half of it is used by them, or is of files that any other index in the folder names.
bool is_mostly_unused(const StructureCache& cache, const CacheUse& use);

// Writes the cache file anew with what is still used, if `damaged`, or if it is mostly unused. `cache` is then the new one. A line for the
// log; empty if nothing was done. The caller holds the lock. Throws DataError.
std::string keep_what_is_used(const CacheUse& use, bool damaged, StructureCache& cache);

// What processes that ended while they wrote have left in the folder. Removed by who holds the lock; throws DataError if that cannot be.
std::vector<std::string> left_over_parts(const std::string& folder);
void remove_left_over_parts(const std::string& folder);

}  // namespace pipeline::protein
