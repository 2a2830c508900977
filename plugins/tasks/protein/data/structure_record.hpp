#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/protein/data/structure.hpp"
#include "plugins/tasks/protein/data/structure_cache_format.hpp"

namespace pipeline::protein {

// A chain whose residues lie elsewhere.
struct ChainView {
  std::string_view name;
  std::span<const Residue> residues;
};

// A whole record, padding included, ready to be appended.
std::string make_record(const files::Hash128& key, const Structure& structure);
std::string make_record(const files::Hash128& key, const std::string& failure);

// Whether the header is one, and whole.
bool is_record(const RecordHeader& header);

// Whether a payload of this header can be used: its hash, its sizes, and every residue.
bool is_whole(const RecordHeader& header, std::string_view payload);

// Appends the chains of a whole payload, which lies at a multiple of 8 bytes and outlives them.
void append_chains(const RecordHeader& header, std::string_view payload, std::vector<ChainView>& chains);

}  // namespace pipeline::protein
