#include "plugins/tasks/protein/data/structure_directory.hpp"

#include <algorithm>
#include <filesystem>

#include "plugins/tasks/protein/data/hashed_file.hpp"

namespace pipeline::protein {
namespace {

constexpr std::string_view kMagic = "PLPROTD1";

}  // namespace

std::string StructureDirectory::path_of(const std::string& cache_path) {
  return std::filesystem::path(cache_path).replace_extension(".index").string();
}

std::optional<StructureDirectory> StructureDirectory::load(const std::string& path, const files::Hash128& cache, uint64_t cache_bytes) {
  bool problem = false;
  const auto held = read_hashed(path, kMagic, problem);
  if (!held) return std::nullopt;
  std::string_view bytes = *held;
  StructureDirectory directory;
  if (!take(bytes, directory.cache) || !take(bytes, directory.end) || directory.cache != cache || directory.end > cache_bytes)
    return std::nullopt;
  directory.records.reserve(bytes.size() / sizeof(CacheRecord));
  CacheRecord record;
  while (take(bytes, record)) directory.records.push_back(record);
  const bool right = std::all_of(directory.records.begin(), directory.records.end(), [&](const CacheRecord& each) {
    return each.begin >= sizeof(CacheFileHeader) && each.begin % kAlignment == 0 && is_record(each.header) && each.is_within(directory.end);
  });
  if (!right || !bytes.empty() || directory.end < sizeof(CacheFileHeader)) return std::nullopt;
  return directory;
}

void StructureDirectory::save(const std::string& path) const {
  std::string held;
  held.reserve(sizeof cache + sizeof end + records.size() * sizeof(CacheRecord));
  put(held, cache);
  put(held, end);
  for (const CacheRecord& record : records) put(held, record);
  write_hashed(path, kMagic, held);
}

}  // namespace pipeline::protein
