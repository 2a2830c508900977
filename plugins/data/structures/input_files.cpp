#include "plugins/data/structures/input_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/utf8.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/record_store/record_store.hpp"
#include "plugins/data/structures/cache_upkeep.hpp"

namespace pipeline::protein {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kEndings = {".pdb", ".ent", ".cif", ".mmcif"};
constexpr const char* kLookedFor = ".pdb, .ent, .cif, .mmcif, and these with .gz";

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// ".pdb", ".txt.gz"; "" without one.
std::string ending_of(const std::string& name) {
  const std::string small = lower(name);
  const bool packed = small.ends_with(".gz") && small.size() > 3;
  const std::string stem = packed ? small.substr(0, small.size() - 3) : small;
  const size_t dot = stem.rfind('.');
  return (dot == std::string::npos || dot == 0 ? "" : stem.substr(dot)) + (packed ? ".gz" : "");
}

bool is_input(std::string ending) {
  if (ending.ends_with(".gz")) ending.resize(ending.size() - 3);
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

class Search {
 public:
  Search(InputFiles& found, const std::function<void()>& check) : found_(found), check_(check) {}

  // `root`: nothing else is there if it cannot be read.
  void folder(const std::string& path, const std::string& relative, bool root = false) {
    if (check_) check_();
    struct stat status {};
    std::vector<std::string> names;
    std::error_code error;
    if (::stat(path.c_str(), &status) != 0) {
      error = {errno, std::generic_category()};
    } else {
      if (!searched_.emplace(status.st_dev, status.st_ino).second) return;
      fs::directory_iterator entries(path, error);
      for (; !error && entries != fs::directory_iterator(); entries.increment(error))
        names.push_back(entries->path().filename().string());
    }
    if (error && root)
      throw files::DataError(path + ": " + error.message() + ": the folder must be readable", error.value());
    if (error)
      found_.unreadable.push_back({relative + "/", "a folder that cannot be searched: " + error.message()});
    std::sort(names.begin(), names.end());  // so that of two ways to a folder always the same one counts
    for (const auto& name : names) {
      if (!name.starts_with('.'))
        entry(path + "/" + name, relative.empty() ? name : relative + "/" + name, name);
    }
  }

 private:
  void entry(const std::string& path, const std::string& relative, const std::string& name) {
    struct stat status {};
    const int problem = ::stat(path.c_str(), &status) == 0 ? 0 : errno;
    if (problem == 0 && S_ISDIR(status.st_mode)) return folder(path, relative);
    const std::string ending = ending_of(name);
    if (problem != 0 && problem != ENOENT) {
      found_.unreadable.push_back(
          {relative, "cannot be looked at: " + std::generic_category().message(problem)});
    } else if (is_input(ending)) {
      // A dead link is an unusable file.
      found_.files.push_back({path, relative, problem == 0 ? FileState(status) : FileState()});
    } else if (!is_cache_name(name)) {
      ++found_.ignored[ending];
    }
  }

  InputFiles& found_;
  const std::function<void()>& check_;
  std::set<std::pair<dev_t, ino_t>> searched_;
};

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

uint64_t InputFiles::ignored_count() const {
  uint64_t count = 0;
  for (const auto& [ending, files_of_it] : ignored) count += files_of_it;
  return count;
}

std::string InputFiles::ignored_text() const {
  constexpr size_t kMost = 8;
  std::vector<std::pair<uint64_t, std::string>> counts;
  for (const auto& [ending, count] : ignored)
    counts.emplace_back(count, ending.empty() ? "without an ending" : printable(ending, ""));
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const uint64_t all = ignored_count();
  std::string text = std::to_string(all) + (all == 1 ? " file: " : " files: ");
  uint64_t others = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i < kMost) {
      text += (i == 0 ? "" : ", ") + counts[i].second + " " + std::to_string(counts[i].first);
    } else {
      others += counts[i].first;
    }
  }
  return others == 0 ? text : text + ", others " + std::to_string(others);
}

InputFiles find_inputs(const std::string& root, const std::function<void()>& check) {
  InputFiles found;
  struct stat status {};
  if (::stat(root.c_str(), &status) != 0)
    throw files::system_error(root, "name a folder of structure files, or one such file");
  found.root = fs::canonical(root).string();
  if (S_ISDIR(status.st_mode)) {
    Search(found, check).folder(found.root, "", true);
  } else {
    found.files.push_back({found.root, fs::path(found.root).filename().string(), FileState(status)});
  }
  if (found.files.empty()) {
    std::string what = found.ignored.empty() ? "nothing" : found.ignored_text();
    for (const auto& [relative, reason] : found.unreadable) what += "; " + relative + ": " + reason;
    throw files::DataError(root + ": no structure files: looked for " + kLookedFor + ", and found " + what);
  }
  std::sort(found.files.begin(), found.files.end(),
            [](const auto& a, const auto& b) { return a.relative < b.relative; });
  return found;
}

std::string without_ending(const std::string& relative) {
  std::string name = relative;
  if (lower(name).ends_with(".gz")) name.resize(name.size() - 3);
  const std::string small = lower(name);
  for (const auto ending : kEndings) {
    if (small.ends_with(ending) && small.size() > ending.size())
      return name.substr(0, name.size() - ending.size());
  }
  return name;
}

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
