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
#include "plugins/tasks/protein/task/comparison.hpp"
#include "plugins/tasks/protein/task/config.hpp"
#include "plugins/tasks/protein/task/entry.hpp"
#include "plugins/tasks/protein/task/sample.hpp"
#include "plugins/tasks/protein/task/scores.hpp"
#include "plugins/tasks/protein/task/task_state.hpp"

namespace pipeline::protein {

const char* name_of(Split split);  // "training", "validation" or "test"

class Dataset {
 public:
  // Parses what is not in the cache, groups similar sequences and deals the groups out to the splits; says
  // what there is and what was left out. learnt: what the weights that are to be used have learnt from;
  // nullptr: nobody knows. Throws an Error if there is nothing to learn from, or too many files are unusable.
  // [main]
  Dataset(const ProteinConfig& config, const Context& context, const Learnt* learnt);
  Dataset(const Dataset&) = delete;  // entries point into it
  Dataset& operator=(const Dataset&) = delete;

  // All [any-thread].
  uint64_t size(Split split) const { return entries(split).size(); }
  const Entry& entry(Split split, uint64_t id) const { return entries(split)[id]; }
  Sample sample(Split split, uint64_t id) const;
  // By number of the chain in the sample.
  std::vector<std::string> chain_names(Split split, uint64_t id) const;
  const std::string& fingerprint() const { return fingerprint_; }
  // Of the training split, one added to each count; the same for all where there is no training data.
  Frequencies frequencies() const;
  // The data of a training with these splits.
  Learnt learnt() const;

  // How many of a split's samples have a chain of the training data, and how many others one that was in the
  // validation split then.
  struct Seen {
    uint64_t training = 0, validation = 0;
  };
  Seen seen(Split split, const Learnt& learnt) const;

 private:
  const std::vector<Entry>& entries(Split split) const { return entries_[static_cast<size_t>(split)]; }
  bool needs_structures() const;
  std::vector<Entry> open(std::optional<StructureLibrary>& library, const std::filesystem::path& root,
                          const char* key);
  void deal_out(std::vector<Entry> all);
  void keep_apart(const std::vector<Entry>& all, std::vector<Split>& split_of) const;
  void take_test_structures(std::vector<Entry> test, const Learnt* learnt);
  void describe() const;

  const ProteinConfig& config_;
  const Context context_;
  const Comparison comparison_;
  const bool own_test_;  // task.test_path is the test split of this run
  std::optional<StructureLibrary> structures_, test_structures_;
  std::array<std::vector<Entry>, 3> entries_;
  size_t chains_ = 0;  // of all samples of pdb_path
  std::string fingerprint_;
};

}  // namespace pipeline::protein
