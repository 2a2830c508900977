#pragma once

#include <string>
#include <unordered_set>

#include "plugins/tasks/protein/data/structure_cache.hpp"

namespace pipeline::protein {

using Keys = std::unordered_set<files::Hash128, KeyHash>;

// Writes the cache file anew with what is still used, the records of all files that an index in the folder names and those in `in_use`: if
// `damaged`, or if it is large and less than half of it is used. `cache` is then the new one. A line for the log; empty if nothing was
// done. The caller holds the lock. Throws DataError.
std::string keep_what_is_used(const std::string& folder, const Keys& in_use, bool damaged, StructureCache& cache);

}  // namespace pipeline::protein
