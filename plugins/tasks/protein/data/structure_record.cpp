#include "plugins/tasks/protein/data/structure_record.hpp"

#include <cstring>
#include <type_traits>

#include "plugins/tasks/common/files/bytes_of.hpp"

namespace pipeline::protein {
namespace {

static_assert(std::is_trivially_copyable_v<Residue> && kAlignment % alignof(Residue) == 0);

using files::bytes_of;

uint64_t hash_of_header(const RecordHeader& header) {
  return files::hash128(bytes_of(header).substr(0, offsetof(RecordHeader, header_hash))).low;
}

std::string record_of(const files::Hash128& key, RecordKind kind, size_t chains, std::string_view payload, std::string_view remark) {
  RecordHeader header{kRecordMagic,
                      key,
                      static_cast<uint32_t>(kind),
                      static_cast<uint32_t>(chains),
                      payload.size(),
                      files::hash128(payload),
                      remark.size(),
                      files::hash128(remark).low,
                      0};
  header.header_hash = hash_of_header(header);
  std::string record;
  const size_t bytes = sizeof header + padded(payload.size() + remark.size());
  record.reserve(bytes);
  record += bytes_of(header);
  record += payload;
  record += remark;
  record.resize(bytes);
  return record;
}

ChainEntry entry_at(std::string_view payload, size_t chain) {
  ChainEntry entry;
  std::memcpy(&entry, payload.data() + chain * sizeof entry, sizeof entry);
  return entry;
}

}  // namespace

bool CacheRecord::is_within(uint64_t file_bytes) const {
  if (begin > file_bytes || header.payload_bytes > file_bytes || header.remark_bytes > file_bytes) return false;
  return bytes() <= file_bytes - begin;
}

std::string make_record(const files::Hash128& key, const Structure& structure) {
  std::string payload, names;
  size_t residues = 0;
  for (const Chain& chain : structure.chains) {
    payload += bytes_of(ChainEntry{static_cast<uint32_t>(chain.name.size()), static_cast<uint32_t>(chain.residues.size())});
    names += chain.name;
    residues += chain.residues.size();
  }
  names.resize(padded(names.size()));
  payload.reserve(payload.size() + names.size() + residues * sizeof(Residue));
  payload += names;
  for (const Chain& chain : structure.chains) {
    payload.append(reinterpret_cast<const char*>(chain.residues.data()), chain.residues.size() * sizeof(Residue));
  }
  return record_of(key, RecordKind::kStructure, structure.chains.size(), payload, structure.remark);
}

std::string make_record(const files::Hash128& key, const std::string& failure) {
  return record_of(key, RecordKind::kFailure, 0, failure, "");
}

bool is_record(const RecordHeader& header) { return header.magic == kRecordMagic && header.header_hash == hash_of_header(header); }

bool is_whole(const RecordHeader& header, std::string_view body) {
  if (header.payload_bytes > body.size() || header.remark_bytes != body.size() - header.payload_bytes) return false;
  const std::string_view payload = body.substr(0, header.payload_bytes);
  if (files::hash128(payload) != header.payload_hash || files::hash128(body.substr(payload.size())).low != header.remark_hash) return false;
  if (header.kind == static_cast<uint32_t>(RecordKind::kFailure)) return true;
  // Hashes are right for whatever was written; the rest is for files made by hand.
  if (header.kind != static_cast<uint32_t>(RecordKind::kStructure) || header.chains == 0) return false;
  if (header.chains > payload.size() / sizeof(ChainEntry)) return false;
  uint64_t names = 0, residues = 0;  // 32-bit numbers, fewer than 2^32 of them: no overflow
  for (size_t chain = 0; chain < header.chains; ++chain) {
    const ChainEntry entry = entry_at(payload, chain);
    if (entry.residues == 0) return false;
    names += entry.name_bytes;
    residues += entry.residues;
  }
  if (names > payload.size() || residues > payload.size() / sizeof(Residue)) return false;
  const uint64_t begin = header.chains * sizeof(ChainEntry) + padded(names);
  if (begin + residues * sizeof(Residue) != payload.size()) return false;
  for (uint64_t i = 0; i < residues; ++i) {
    const auto amino_acid = static_cast<uint8_t>(payload[begin + i * sizeof(Residue) + offsetof(Residue, amino_acid)]);
    if (amino_acid > kUnknown) return false;
  }
  return true;
}

void append_chains(const RecordHeader& header, std::string_view body, std::vector<ChainView>& chains) {
  uint64_t names = 0;
  for (size_t chain = 0; chain < header.chains; ++chain) names += entry_at(body, chain).name_bytes;
  const char* name = body.data() + header.chains * sizeof(ChainEntry);
  const auto* residue = reinterpret_cast<const Residue*>(name + padded(names));
  for (size_t chain = 0; chain < header.chains; ++chain) {
    const ChainEntry entry = entry_at(body, chain);
    chains.push_back({{name, entry.name_bytes}, {residue, entry.residues}});
    name += entry.name_bytes;
    residue += entry.residues;
  }
}

}  // namespace pipeline::protein
