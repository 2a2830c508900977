#pragma once

#include <string>
#include <vector>

#include "plugins/tasks/protein/data/input_files.hpp"
#include "plugins/tasks/protein/data/structure_cache.hpp"
#include "plugins/tasks/protein/data/structure_library.hpp"

namespace pipeline::protein {

// What became of a file: its content's key, which the cache has, or why it could not be read.
struct FileOutcome {
  bool has_key = false;
  files::Hash128 key;
  std::string reason;
};

struct Built {
  StructureCache cache;               // has every outcome's key
  std::vector<FileOutcome> outcomes;  // one a file
  uint64_t read = 0, parsed = 0;
};

// Brings the cache and the index of the folder up to date with the files, under a lock if there is anything to do. Throws DataError or
// Cancelled.
Built build_library(const InputFiles& inputs, const LibraryOptions& options, const LibraryHooks& hooks);

}  // namespace pipeline::protein
