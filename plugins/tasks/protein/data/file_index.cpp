#include "plugins/tasks/protein/data/file_index.hpp"

#include <filesystem>
#include <utility>

#include "plugins/tasks/common/files/hash128.hpp"
#include "plugins/tasks/common/record_store/record_store.hpp"

namespace pipeline::protein {
namespace {

constexpr records::Kind kFiles{.name = "PROTFILE", .version = 1, .remedy = "every file is read again"};

using files::take;
using Numbers = FileIndex::Entry::Numbers;
static_assert(sizeof(Numbers) == sizeof(FileState) + sizeof(files::Hash128) + 16);  // no padding

bool take_text(std::string_view& in, std::string& text) {
  uint64_t size = 0;
  if (!take(in, size) || size > in.size()) return false;
  text = in.substr(0, size);
  in.remove_prefix(size);
  return true;
}

void put_text(std::string& out, std::string_view text) {
  out.append(files::bytes_of(uint64_t{text.size()})).append(text);
}

// The path of the file has the hash of the root, so that one key serves all.
constexpr files::Hash128 kKey{1, 0};

}  // namespace

std::string FileIndex::path_in(const std::string& folder, const std::string& root) {
  return std::filesystem::path(folder) / ("protein-files-" + files::hash128(root).hex() + ".index");
}

FileIndex::FileIndex(const std::string& path) {
  bool problem = false;
  const auto held = records::load(path, kFiles, kKey, problem);
  if (!problem && (!held || parse(*held))) return;
  entries_.clear();
  problem_ = path + ": damaged, or of another version: " + std::string(kFiles.remedy);
}

bool FileIndex::parse(std::string_view bytes) {
  while (!bytes.empty()) {
    std::string relative;
    Entry entry;
    if (!take_text(bytes, relative) || !take(bytes, entry.is) || !take_text(bytes, entry.reason))
      return false;
    entries_.emplace(std::move(relative), std::move(entry));
  }
  return true;
}

const FileIndex::Entry* FileIndex::find(const std::string& relative, const FileState& state) const {
  const auto found = entries_.find(relative);
  return found != entries_.end() && found->second.is.state == state ? &found->second : nullptr;
}

void FileIndex::save(const std::string& path) const {
  std::string held;
  for (const auto& [relative, entry] : entries_) {
    put_text(held, relative);
    held += files::bytes_of(entry.is);
    put_text(held, entry.reason);
  }
  records::save(path, kFiles, kKey, held);
}

}  // namespace pipeline::protein
