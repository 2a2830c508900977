#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/stores/record_store.hpp"
#include "plugins/data/structures/structure.hpp"
#include "plugins/data/structures/structure_reader.hpp"

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

}  // namespace pipeline::structures
