#include "plugins/data/structures/structure_record.hpp"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/structures/input_files.hpp"

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

// An index that nobody has used for 30 days is no more (files::remove_unused), and then nothing that only it
// names is used.
stores::Keys all_keys(const CacheUse& use) {
  stores::Keys keys = use.keys;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(use.folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("protein-files-") || !name.ends_with(".index") || entry.path() == use.index)
      continue;
    if (!entry.is_regular_file(error)) continue;
    const FileIndex index(entry.path().string());
    for (const auto& [relative, known] : index.entries())
      if (known.is_read()) keys.insert(known.is.hash);
  }
  return keys;
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

bool is_mostly_unused(const stores::RecordStore& cache, const CacheUse& use) {
  // The other indices are read only where the answer depends on them.
  return is_mostly_other_than(cache, use.keys) && is_mostly_other_than(cache, all_keys(use));
}

std::string keep_what_is_used(const CacheUse& use, bool damaged, stores::RecordStore& cache) {
  const bool mostly_unused = is_mostly_unused(cache, use);
  if (!damaged && !mostly_unused) return "";
  const uint64_t before = cache.end();
  keep_only(cache, kStructures, all_keys(use));
  if (!mostly_unused) return "";
  return cache.path() + ": " + files::megabytes(before) + " are now " + files::megabytes(cache.end()) +
         ", without what was parsed of files that are no more or have changed";
}

std::vector<std::string> left_over_parts(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (std::regex_match(entry.path().filename().string(), part_names()))
      paths.push_back(entry.path().string());
  return paths;
}

void remove_left_over_parts(const std::string& folder) {
  for (const std::string& path : left_over_parts(folder)) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (!error) continue;
    throw files::DataError(path + ": " + error.message() + ": remove it, it is left over", error.value());
  }
}

}  // namespace pipeline::structures
