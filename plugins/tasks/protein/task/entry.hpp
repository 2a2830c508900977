#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/tasks/protein/data/structure_library.hpp"
#include "plugins/tasks/protein/task/config.hpp"

namespace pipeline::protein {

// A sample of a library, which has to outlive it: chains of a structure.
struct Entry {
  std::string name;  // the structure's, and the chain's where that is a sample; the library has it once
  std::string file;  // what names of its files begin with; no other sample's do
  const StructureLibrary* library = nullptr;
  size_t structure = 0;
  std::vector<size_t> chains;
  std::vector<uint64_t> keys;  // of the chains: what they are (content_key)
  uint64_t key = 0;            // of all of them
  uint32_t cluster = 0;        // of similar samples; numbered over those that were compared with each other
  uint64_t cluster_key = 0;    // a hash of the sequences of the cluster's samples
  int64_t residues = 0, known = 0;
};

struct Entries {
  std::vector<Entry> kept;
  std::vector<std::string> left_out;  // names of samples with fewer known residues than options.min_residues
  uint64_t residues_left_out = 0;
};

Entries entries_of(const StructureLibrary& library, const DataConfig& options);

}  // namespace pipeline::protein
