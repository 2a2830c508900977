// The data of a run: the samples of each split, made of the structures of a folder.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/tasks/protein/data/structure_library.hpp"
#include "plugins/tasks/protein/task/config.hpp"
#include "plugins/tasks/protein/task/frequencies.hpp"
#include "plugins/tasks/protein/task/sample.hpp"

namespace pipeline::protein {

class Dataset {
 public:
  struct Entry {
    std::string name;      // the structure's, and the chain's where a sample is one
    const StructureLibrary* library = nullptr;
    size_t structure = 0;
    std::vector<size_t> chains;
    uint32_t cluster = 0;  // of similar samples; numbered over the splits that were opened together
    int64_t residues = 0, known = 0;
  };

  // Parses what is not in the cache, groups similar sequences and deals the groups out to the splits; says what there is and what was left
  // out. Throws an Error if a split that the run needs is empty or too many files are unusable. [main]
  Dataset(const ProteinConfig& config, const Context& context);
  Dataset(const Dataset&) = delete;  // entries point into it
  Dataset& operator=(const Dataset&) = delete;

  // All [any-thread].
  uint64_t size(Split split) const { return entries_[static_cast<size_t>(split)].size(); }
  const Entry& entry(Split split, uint64_t id) const { return entries_[static_cast<size_t>(split)][id]; }
  Sample sample(Split split, uint64_t id) const;
  std::vector<std::string> chain_names(Split split, uint64_t id) const;  // by number of the chain in the sample
  const std::string& fingerprint() const { return fingerprint_; }
  // Of the training split, one added to each count; the same for all where there is no training data.
  Frequencies frequencies() const;

 private:
  bool is_needed(bool own_test, uint32_t purpose, const Context& context) const;
  std::vector<Entry> entries_of(const StructureLibrary& library) const;
  std::vector<uint32_t> clusters_of(const std::vector<Entry>& entries, const Context& context) const;
  void deal_out(std::vector<Entry> all, const Context& context);
  void add_test_structures(std::vector<Entry> test, const Context& context);
  void describe(const Context& context) const;

  const ProteinConfig& config_;
  std::optional<StructureLibrary> structures_, test_structures_;
  std::array<std::vector<Entry>, 3> entries_;
  std::string fingerprint_;
};

}  // namespace pipeline::protein
