#include "plugins/data/structures/cache_upkeep.hpp"

#include <filesystem>
#include <regex>
#include <system_error>

#include "plugins/data/files/cache_folder.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/stores/record_writer.hpp"
#include "plugins/data/structures/input_files.hpp"
#include "plugins/data/structures/structure_record.hpp"

namespace pipeline::structures {
namespace {

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
