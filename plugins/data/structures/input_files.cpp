#include "plugins/data/structures/input_files.hpp"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <utility>

#include "plugins/data/stores/record_store.hpp"
#include "plugins/data/structures/structure_record.hpp"

namespace pipeline::structures {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kEndings = {".pdb", ".ent", ".cif", ".mmcif"};
constexpr const char* kLookedFor = ".pdb, .ent, .cif, .mmcif, and these with .gz";

// Bytes of the ending that makes it an input; 0: none does.
size_t ending_bytes(const std::string& name) {
  std::string small = files::in_small_letters(name);
  const size_t packing = small.ends_with(".gz") ? 3 : 0;
  small.resize(small.size() - packing);
  for (const auto ending : kEndings)
    if (small.ends_with(ending) && small.size() > ending.size()) return ending.size() + packing;
  return 0;
}

constexpr stores::Kind kFiles{.name = "PROTFILE", .version = 1, .remedy = "every file is read again"};

using files::take, files::take_text;
using Numbers = FileIndex::Entry::Numbers;
static_assert(sizeof(Numbers) == sizeof(FileState) + sizeof(files::Hash128) + 16);  // no padding

// The path of the file has the hash of the root, so that one key serves all.
constexpr files::Hash128 kKey{1, 0};

}  // namespace

InputFiles find_inputs(const std::string& root, const std::function<void()>& check) {
  InputFiles found;
  struct stat status {};
  if (::stat(root.c_str(), &status) != 0)
    throw files::system_error(root, "name a folder of structure files, or one such file");
  found.root = fs::canonical(root).string();
  if (S_ISDIR(status.st_mode)) {
    files::FolderContents below = files::search_folder(
        found.root,
        [](const std::string& name) {
          return is_structure(name)    ? files::Use::kTake
                 : is_cache_name(name) ? files::Use::kPassOver
                                       : files::Use::kIgnore;
        },
        check);
    // A dead link is an unusable file.
    for (const files::FoundFile& file : below.files)
      found.files.push_back({file.path, file.relative, file.is_there ? FileState(file.status) : FileState()});
    for (const auto& [relative, reason] : below.unreadable) found.unreadable.push_back({relative, reason});
    found.ignored = std::move(below.ignored);
  } else {
    found.files.push_back({found.root, fs::path(found.root).filename().string(), FileState(status)});
  }
  if (found.files.empty()) {
    std::string what = found.ignored.empty() ? "nothing" : found.ignored.text();
    for (const auto& [relative, reason] : found.unreadable) what += "; " + relative + ": " + reason;
    throw files::DataError(root + ": no structure files: looked for " + kLookedFor + ", and found " + what);
  }
  return found;
}

bool is_structure(const std::string& name) { return ending_bytes(name) > 0; }

std::string without_ending(const std::string& relative) {
  const bool is_packed =
      files::in_small_letters(relative).ends_with(".gz");  // also where a file was given, whatever its name
  const size_t bytes = ending_bytes(relative);
  return relative.substr(0, relative.size() - (bytes > 0 ? bytes : is_packed ? 3 : 0));
}

std::string FileIndex::path_in(const std::string& folder, const std::string& root) {
  return std::filesystem::path(folder) / ("protein-files-" + files::hash128(root).hex() + ".index");
}

FileIndex::FileIndex(const std::string& path) {
  bool problem = false;
  const auto held = stores::load(path, kFiles, kKey, problem);
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
    files::put_text(held, relative);
    held += files::bytes_of(entry.is);
    files::put_text(held, entry.reason);
  }
  stores::save(path, kFiles, kKey, held);
}

}  // namespace pipeline::structures
