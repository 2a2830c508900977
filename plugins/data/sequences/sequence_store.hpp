#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugins/data/sequences/sequence_files.hpp"
#include "plugins/data/stores/sample_store.hpp"

namespace pipeline::sequences {

// A file of samples: each a Head, the bytes of each other column's value (kAbsent: it has none), the codes,
// the name, the values, one after another. A change of any of this raises the version. Divisions into splits
// lie beside such files.
constexpr stores::SampleKind kSequences{.name = "PLSEQNCE",
                                        .version = 2,
                                        .ending = "sequences",
                                        .others = R"(.+-[0-9a-f]{32}\.split(\.part|\.lock)?|)"};

struct StoredHead {
  uint32_t residues, known, name_bytes, others;
};
static_assert(sizeof(StoredHead) == 16);
constexpr uint32_t kAbsent = UINT32_MAX;

// A sequence as it was read. Its views are valid as long as it lives.
class StoredSequence {
 public:
  explicit StoredSequence(stores::Sample bytes, const std::string& path);  // throws DataError

  std::span<const uint8_t> codes() const { return codes_; }
  uint32_t known() const { return head_.known; }  // residues that are one of the twenty
  std::string_view name() const { return name_; }
  // The value in column others[i]; nothing where the record has none.
  std::optional<std::string_view> other(size_t i) const;

 private:
  stores::Sample bytes_;
  StoredHead head_{};
  std::span<const uint8_t> codes_;
  std::string_view sizes_, name_, values_;
};

struct StoreOptions {
  std::string cache_folder;
  Columns columns;
  ReadOptions read;  // its on_block is ignored
};

// The sequences of a source, in its order. Opening reads none of them: memory does not grow with their
// number. Immutable; safe for concurrent use.
class SequenceStore {
 public:
  // The first process that opens a source writes it into the cache folder, and the others wait. Progress is
  // of the files' bytes. Throws DataError, or Cancelled.
  static SequenceStore open(const sources::SourceFiles& source, const StoreOptions& options,
                            const files::Hooks& hooks);

  uint64_t size() const { return store_.size(); }
  StoredSequence operator[](uint64_t i) const;  // i < size(); DataError where the file was changed
  uint64_t residues() const { return residues_; }
  const SourceReport& report() const { return report_; }  // of the reading
  // Equal where all names, sequences and other columns are.
  const files::Hash128& content() const { return store_.content(); }

 private:
  explicit SequenceStore(stores::SampleStore store);

  stores::SampleStore store_;
  uint64_t residues_ = 0;
  SourceReport report_;
};

}  // namespace pipeline::sequences
