#include "plugins/data/structures/structure_record.hpp"

#include <cstring>
#include <filesystem>

#include "plugins/data/files/hash128.hpp"

namespace pipeline::structures {
namespace {

using files::bytes_of;

static_assert(std::is_trivially_copyable_v<residues::Residue> &&
              stores::kAlignment % alignof(residues::Residue) == 0);
static_assert(sizeof(StoredFile::Head) == 24 && sizeof(StoredFile::ChainEntry) == 8);

std::string payload_of(size_t chains, std::string_view body, std::string_view text) {
  const StoredFile::Head head{.chains = static_cast<uint32_t>(chains),
                              .text_bytes = static_cast<uint32_t>(text.size()),
                              .chains_hash = files::hash128(body)};
  std::string payload;
  payload.reserve(sizeof head + body.size() + text.size());
  return payload.append(bytes_of(head)).append(body).append(text);
}

}  // namespace

std::string structures_path(const std::string& folder) {
  return std::filesystem::path(folder) / ("protein-structures-" + std::to_string(kParserVersion) + ".cache");
}

std::string structure_payload(const Structure& structure) {
  std::string body, names;
  for (const Chain& chain : structure.chains) {
    body += bytes_of(StoredFile::ChainEntry{static_cast<uint32_t>(chain.name.size()),
                                            static_cast<uint32_t>(chain.residues.size())});
    names += chain.name;
  }
  names.resize(stores::padded(names.size()));
  body += names;
  for (const Chain& chain : structure.chains) body += bytes_of(chain.residues);
  return payload_of(structure.chains.size(), body, structure.remark);
}

std::string failure_payload(const std::string& reason) { return payload_of(0, "", reason); }

std::optional<StoredFile> StoredFile::of(std::string_view payload) {
  StoredFile file;
  Head& head = file.head_;
  if (payload.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, payload.data(), sizeof head);
  std::string_view body = payload.substr(sizeof head);
  if (head.text_bytes > body.size()) return std::nullopt;
  file.text_ = body.substr(body.size() - head.text_bytes);
  body.remove_suffix(head.text_bytes);
  if (head.chains > body.size() / sizeof(ChainEntry)) return std::nullopt;
  file.entries_ = reinterpret_cast<const ChainEntry*>(body.data());
  uint64_t names = 0, residues = 0;  // 32-bit numbers, fewer than 2^32 of them: no overflow
  for (size_t chain = 0; chain < head.chains; ++chain) {
    if (file.entries_[chain].residues == 0) return std::nullopt;
    names += file.entries_[chain].name_bytes;
    residues += file.entries_[chain].residues;
  }
  if (names > body.size() || residues > body.size() / sizeof(residues::Residue)) return std::nullopt;
  const uint64_t begin = head.chains * sizeof(ChainEntry) + stores::padded(names);
  if (begin + residues * sizeof(residues::Residue) != body.size()) return std::nullopt;
  file.names_ = body.data() + head.chains * sizeof(ChainEntry);
  file.residues_ = reinterpret_cast<const residues::Residue*>(body.data() + begin);
  for (uint64_t i = 0; i < residues; ++i)
    if (file.residues_[i].amino_acid > residues::kUnknown) return std::nullopt;
  return file;
}

std::optional<StoredFile> StoredFile::of(const stores::RecordStore& store, const stores::Record& record) {
  return store.is_whole(record) ? of(store.payload(record)) : std::nullopt;
}

void StoredFile::append_chains(std::vector<ChainView>& chains) const {
  const char* name = names_;
  const residues::Residue* residue = residues_;
  for (size_t chain = 0; chain < head_.chains; ++chain) {
    const ChainEntry& entry = entries_[chain];
    chains.push_back({{name, entry.name_bytes}, {residue, entry.residues}});
    name += entry.name_bytes;
    residue += entry.residues;
  }
}

}  // namespace pipeline::structures
