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

// A record and where it lies.
struct CacheRecord {
  uint64_t begin;  // of the header, in the file
  RecordHeader header;

  bool is_structure() const { return header.kind == static_cast<uint32_t>(RecordKind::kStructure); }
  uint64_t body_bytes() const { return header.payload_bytes + header.remark_bytes; }
  uint64_t bytes() const { return sizeof header + padded(body_bytes()); }  // header and padding included
  // Whether it lies within the first bytes of a file.
  bool is_within(uint64_t file_bytes) const;
};

// A whole record, padding included, ready to be appended.
std::string make_record(const files::Hash128& key, const Structure& structure);
std::string make_record(const files::Hash128& key, const std::string& failure);

// Whether the header is one, and whole.
bool is_record(const RecordHeader& header);

// Whether what is behind this header, payload and remark, can be used: its hashes, its sizes, and every residue.
bool is_whole(const RecordHeader& header, std::string_view body);

// Appends the chains of a whole body, which lies at a multiple of 8 bytes and outlives them.
void append_chains(const RecordHeader& header, std::string_view body, std::vector<ChainView>& chains);

}  // namespace pipeline::protein
