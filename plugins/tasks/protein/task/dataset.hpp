// The data of a run: the samples of each split, made of the structures of a folder.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/task_types.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/data/structures/structure_library.hpp"
#include "plugins/tasks/protein/clusters/clusters.hpp"
#include "plugins/tasks/protein/task/cluster_cache.hpp"
#include "plugins/tasks/protein/task/config.hpp"
#include "plugins/tasks/protein/task/sample.hpp"
#include "plugins/tasks/protein/task/scores.hpp"
#include "plugins/tasks/protein/task/task_state.hpp"

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

// The sequences of samples compared with each other, with progress, cancellation and a cache; what is not
// exact is said in the log.
class Comparison {
 public:
  Comparison(const ProteinConfig& config, const Context& context);

  // Gives the samples their clusters, numbered from 0 in the order in which they first appear: samples are in
  // one if a chain of similar chains, and of chains of one sample, joins them. Returns whether every pair of
  // sequences was aligned.
  bool cluster(std::vector<Entry>& entries) const;

  // Nonzero for each of `queries` that has a chain like one of `references`. set_size: the sequences of the
  // set that both are parts of. Aligns every pair where is_affordable(), else those that share seeds.
  std::vector<uint8_t> similar(std::span<const Entry* const> queries,
                               std::span<const Entry* const> references, size_t set_size) const;
  static bool is_affordable(std::span<const Entry* const> queries, std::span<const Entry* const> references);

 private:
  files::Hooks hooks() const;

  const Context& context_;
  ClusterOptions options_;
  ClusterCache cache_;
};

size_t count_chains(std::span<const Entry> entries);

// Where the task keeps what it made of the data.
std::string cache_folder(const ProteinConfig& config, const Context& context);
// Of the one process that prepares data, while the others of its host wait for it.
unsigned data_threads(const Context& context);

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
