#pragma once

#include <string>
#include <vector>

#include "plugins/tasks/protein/data/file_reader.hpp"
#include "plugins/tasks/protein/data/input_files.hpp"
#include "plugins/tasks/protein/data/structure_library.hpp"
#include "plugins/tasks/protein/data/structure_record.hpp"

namespace pipeline::protein {

struct Built {
  records::RecordStore cache;              // has the content of every file that could be read
  std::vector<FileIndex::Entry> outcomes;  // one a file
  uint64_t read = 0, parsed = 0;
};

// Brings the cache and the index of the folder up to date with the files, under a lock if there is anything
// to do. Where the cache folder may only be read, new files are left out, with that as their reason. Throws
// DataError or Cancelled.
Built build_library(const InputFiles& inputs, const LibraryOptions& options, const files::Hooks& hooks);

}  // namespace pipeline::protein
