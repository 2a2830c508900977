#pragma once

#include <string>

#include "plugins/tasks/protein/data/file_index.hpp"
#include "plugins/tasks/protein/data/input_files.hpp"
#include "plugins/tasks/protein/data/memory_budget.hpp"
#include "plugins/tasks/protein/data/structure_record.hpp"

namespace pipeline::protein {

// What became of a file: its content's key, which the cache has, or why it could not be read.
struct FileOutcome {
  bool has_key = false;
  files::Hash128 key;
  std::string reason;
};

struct ReadResult {
  MemoryBudget::Share memory;  // what the record needs
  FileOutcome outcome;
  FileIndex::Entry entry;
  bool lasting = false;     // the entry holds until the file's state changes
  bool is_damaged = false;  // the cache has the key, but its record is not whole
  std::string record;       // to be appended; empty if the cache has it, or there is none
};

// Reads a file, and parses it if the cache does not have its content. [any-thread]
ReadResult read_file(const InputFile& file, const ReadLimits& limits, const records::RecordStore& cache,
                     MemoryBudget& budget);

// Whether what is remembered of a file whose state is the same still holds.
bool holds(const FileIndex::Entry& entry, const InputFile& file, const ReadLimits& limits);

}  // namespace pipeline::protein
