#pragma once

#include <string>
#include <vector>

#include "plugins/tasks/common/record_store/record_store.hpp"

namespace pipeline::protein {

// What is used of the caches in a folder by those who open one library of it.
struct CacheUse {
  std::string folder, index;  // the index of their files: what else it names is of files that are no more
  records::Keys keys;         // of their files
};

// Whether most of the cache is used neither by them nor by those of any other index in the folder.
bool is_mostly_unused(const records::RecordStore& cache, const CacheUse& use);

// Writes the cache file anew with what is still used, if `damaged`, or if it is mostly unused. `cache` is
// then the new one. A line for the log; empty if nothing was done. The caller holds the lock. Throws
// DataError.
std::string keep_what_is_used(const CacheUse& use, bool damaged, records::RecordStore& cache);

// What processes that ended while they wrote have left in the folder. Removed by who holds the lock; throws
// DataError if that cannot be.
std::vector<std::string> left_over_parts(const std::string& folder);
void remove_left_over_parts(const std::string& folder);

}  // namespace pipeline::protein
