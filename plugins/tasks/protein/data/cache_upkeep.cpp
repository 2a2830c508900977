#include "plugins/tasks/protein/data/cache_upkeep.hpp"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "plugins/tasks/protein/data/file_index.hpp"
#include "plugins/tasks/protein/data/structure_cache_writer.hpp"

namespace pipeline::protein {
namespace {

constexpr uint64_t kLeastUnused = uint64_t{1} << 20;  // bytes: less is not worth a new file

// An index that nobody has used for 30 days is no more (files::remove_unused), and then nothing that only it names is used.
Keys used_keys(const std::string& folder, Keys keys) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("protein-files-") || !name.ends_with(".index")) continue;
    const FileIndex index(entry.path().string());
    for (const auto& [relative, known] : index.entries()) {
      if (known.is_read()) keys.insert(known.hash);
    }
  }
  return keys;
}

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

std::string keep_what_is_used(const std::string& folder, const Keys& in_use, bool damaged, StructureCache& cache) {
  if (!damaged && cache.end() <= kLeastUnused) return "";
  const Keys keys = used_keys(folder, in_use);
  uint64_t used = 0;
  for (const auto& record : cache.records()) used += keys.count(record.header.key) > 0 ? record.bytes() : 0;
  const uint64_t before = cache.end(), unused = before - used;
  const bool mostly_unused = unused > kLeastUnused && unused > used;
  if (!damaged && !mostly_unused) return "";
  const std::string path = StructureCache::path_in(folder);
  StructureCacheWriter::rewrite(path, cache, [&](const CacheRecord& record) { return keys.count(record.header.key) > 0; });
  cache = StructureCache(path);
  if (!mostly_unused) return "";
  return path + ": " + megabytes(before) + " are now " + megabytes(cache.end()) +
         ", without what was parsed of files that are no more or have changed";
}

}  // namespace pipeline::protein
