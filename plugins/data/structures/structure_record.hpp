#pragma once

#include <optional>
#include <regex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/stores/record_store.hpp"
#include "plugins/data/structures/structure.hpp"

namespace pipeline::structures {

// The file that keeps what was parsed, by the hash of a file's content: <folder>/protein-structures-<n>.cache
constexpr stores::Kind kStructures{.name = "PROTEIN1",
                                   .version = kParserVersion,
                                   .remedy = "the files whose records were there are parsed again"};
std::string structures_path(const std::string& folder);

// A chain whose residues lie elsewhere.
struct ChainView {
  std::string_view name;
  std::span<const residues::Residue> residues;
};

// The payload of a file's record: of one that was parsed, and of one that cannot be used.
std::string structure_payload(const Structure& structure);
std::string failure_payload(const std::string& reason);

// A payload, read where it lies, at a multiple of 8 bytes:
//
//   Head
//   ChainEntry[chains]
//   names               of the chains, one after the other, padded with zeros
//   Residue[]           of the chains, one after the other
//   text
//
// A change of any of this, Residue included, changes the name in kStructures.
class StoredFile {
 public:
  // nullopt for a payload whose sizes do not fit together, or whose residues are none: one made by hand.
  static std::optional<StoredFile> of(std::string_view payload);
  // nullopt where the record is damaged, too.
  static std::optional<StoredFile> of(const stores::RecordStore& store, const stores::Record& record);

  bool is_structure() const { return head_.chains > 0; }
  std::string_view text() const { return text_; }  // what is odd about the structure; or why it is none
  const files::Hash128& chains_hash() const { return head_.chains_hash; }
  void append_chains(std::vector<ChainView>& chains) const;  // valid as long as the payload

  struct Head {
    uint32_t chains;  // 0: the file cannot be used
    uint32_t text_bytes;
    files::Hash128 chains_hash;  // of what is between the head and the text
  };
  struct ChainEntry {
    uint32_t name_bytes, residues;
  };

 private:
  Head head_;
  const ChainEntry* entries_;
  const char* names_;
  const residues::Residue* residues_;
  std::string_view text_;
};

// The names of what this task leaves in a cache folder, and what nothing has used for long may be removed of;
// the lock stays.
inline const std::regex& removable_names() {
  static const std::regex names(R"(protein-(structures-[0-9]+\.(cache|index)|files-[0-9a-f]{32}\.index|)"
                                R"(clusters-[0-9a-f]{32}\.bin)(\.part)?|)"
                                R"(protein-unusable-[0-9a-f]{8}\.txt(\.[0-9]+\.part)?)");
  return names;
}

// Files that are written under the lock before they get their names: whoever holds the lock and finds one may
// remove it.
inline const std::regex& part_names() {
  static const std::regex names(R"(protein-(structures-[0-9]+\.cache|files-[0-9a-f]{32}\.index|)"
                                R"(clusters-[0-9a-f]{32}\.bin)\.part)");
  return names;
}

constexpr const char* kLockName = "protein-data.lock";

inline bool is_cache_name(const std::string& name) {
  return name == kLockName || (name.starts_with("protein-") && std::regex_match(name, removable_names()));
}

// What those who open one library use of a folder's caches.
struct CacheUse {
  std::string folder, index;  // the index of their files: what else it names is of files that are no more
  stores::Keys keys;          // of their files
};

// Whether most of the cache is used neither by them nor by those of any other index in the folder.
bool is_mostly_unused(const stores::RecordStore& cache, const CacheUse& use);

// Writes the cache file anew with what is still used, if `damaged`, or if it is mostly unused. `cache` is
// then the new one. A line for the log; empty if nothing was done. The caller holds the lock. Throws
// DataError.
std::string keep_what_is_used(const CacheUse& use, bool damaged, stores::RecordStore& cache);

// Files that processes left in the folder when they ended while writing. Whoever holds the lock removes them;
// throws DataError if that cannot be.
std::vector<std::string> left_over_parts(const std::string& folder);
void remove_left_over_parts(const std::string& folder);

}  // namespace pipeline::structures
