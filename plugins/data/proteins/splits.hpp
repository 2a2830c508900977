// Which samples are in which split.
#pragma once

#include <pipeline/task_types.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/data/files/error.hpp"
#include "plugins/data/proteins/learnt.hpp"
#include "plugins/data/proteins/options.hpp"
#include "plugins/data/proteins/samples.hpp"
#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/stores/sample_store.hpp"

namespace pipeline::proteins {

// Why a sample is where it is.
enum class Reason : uint32_t {
  kFold,          // its cluster is in this part
  kLikeTraining,  // moved, since it is like training data
  kLikeTest,      // moved from validation, since it is like test data
  kColumn,        // a column says so
  kOwnTest,       // it is of task.test_path
  kTooFew,        // left out: fewer known residues than task.data.min_residues
  kNoWord,        // left out: there is no split for it
  kNoLabel,       // left out: it has no label that can be read
};
std::string_view text_of(Reason reason);

struct SplitRow {
  uint64_t cluster_key = 0;  // a hash of the sequences of the cluster's samples, or of its name
  uint32_t sample = 0;       // its number in the source
  uint32_t cluster = 0;      // numbered over those that were compared with each other
  uint32_t residues = 0, known = 0, chains = 0;
  Reason reason = Reason::kFold;
};
static_assert(sizeof(SplitRow) == 32);

// Rows by Split, and behind these three those in no split.
constexpr size_t kLeftOut = 3, kParts = 4;
using SplitRows = std::array<std::vector<SplitRow>, kParts>;

// Totals over a part.
struct PartTotals {
  uint64_t rows = 0, residues = 0, clusters = 0;
  std::array<uint64_t, residues::kAminoAcidCount> amino_acids{};
  ContentKeys keys;  // of the chains
};

// Immutable; safe for concurrent use.
class Splits {
 public:
  Splits() = default;  // without samples
  // Splits that are held in memory.
  Splits(SplitRows rows, const Samples& samples);
  // Splits in a file of samples: memory does not grow with them. The first process that asks makes it, and
  // the others wait. Throws files::DataError.
  static Splits in_file(const std::string& path, const files::Hash128& key, const Samples& samples,
                        const files::Hooks& hooks, const std::function<SplitRows()>& make);

  uint64_t size(size_t part) const { return totals_[part].rows; }
  SplitRow row(size_t part, uint64_t i) const;  // i < size(part)
  const PartTotals& totals(size_t part) const { return totals_[part]; }

 private:
  explicit Splits(stores::SampleStore store);

  SplitRows rows_;
  stores::SampleStore store_;
  std::array<PartTotals, kParts> totals_;
};

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
