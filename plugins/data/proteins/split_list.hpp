#pragma once

#include <pipeline/task_types.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugins/data/files/error.hpp"
#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"

namespace pipeline::proteins {

// The split of such a name, capitals or not: train, training, val, valid, validation, dev, test, testing.
std::optional<Split> split_named(std::string_view word);

// P69905 of sp|P69905|HBA_HUMAN, as UniProt's headers have it; empty: it has none.
std::string_view accession_of(std::string_view name);

// The user's own clusters or splits, by sample: those of task.split.list, or what the source itself says.
class SplitList {
 public:
  // Throws files::DataError.
  SplitList(const ProteinData& options, const std::string& cache_folder, const files::Hooks& hooks);

  Samples::Words words(const Samples& samples, uint64_t i) const;
  uint64_t size() const { return by_name_.size(); }  // names in the list
  uint64_t unused() const;                           // names that nothing was asked for
  // A key of the options and the list's content.
  static std::string key(const ProteinData& options, const std::string& cache_folder,
                         const files::Hooks& hooks);

 private:
  struct Entry {
    uint64_t name;  // a hash of it
    Samples::Words words;
    mutable bool is_used = false;
  };
  void read_members(const std::string& path);
  void add(std::string_view name, const Samples::Words& words, const std::string& where);

  std::unordered_map<uint64_t, Entry> by_name_;
  bool is_there_ = false;
};

}  // namespace pipeline::proteins
