#include "plugins/tasks/protein/data/file_index.hpp"

#include <filesystem>
#include <utility>

#include "plugins/tasks/protein/data/hashed_file.hpp"

namespace pipeline::protein {
namespace {

// A hashed file that holds for each file its relative path and what is in an entry.
constexpr std::string_view kMagic = "PLPROTI2";

}  // namespace

std::string FileIndex::path_in(const std::string& folder, const std::string& root) {
  return (std::filesystem::path(folder) / ("protein-files-" + files::hash128(root).hex() + ".index")).string();
}

FileIndex::FileIndex(const std::string& path) {
  bool problem = false;
  const auto held = read_hashed(path, kMagic, problem);
  if (!problem && (!held || parse(*held))) return;
  entries_.clear();
  problem_ = path + ": damaged, or of another version: every file is read again";
}

bool FileIndex::parse(std::string_view bytes) {
  while (!bytes.empty()) {
    std::string relative;
    Entry entry;
    if (!take_text(bytes, relative) || !take(bytes, entry.state) || !take(bytes, entry.hash) || !take(bytes, entry.cause) ||
        !take(bytes, entry.code) || !take(bytes, entry.limit) || !take_text(bytes, entry.reason))
      return false;
    entries_.emplace(std::move(relative), std::move(entry));
  }
  return true;
}

const FileIndex::Entry* FileIndex::find(const std::string& relative, const files::FileState& state) const {
  const auto found = entries_.find(relative);
  return found != entries_.end() && found->second.state == state ? &found->second : nullptr;
}

void FileIndex::save(const std::string& path) const {
  std::string held;
  for (const auto& [relative, entry] : entries_) {
    put_text(held, relative);
    put(held, entry.state);
    put(held, entry.hash);
    put(held, entry.cause);
    put(held, entry.code);
    put(held, entry.limit);
    put_text(held, entry.reason);
  }
  write_hashed(path, kMagic, held);
}

}  // namespace pipeline::protein
