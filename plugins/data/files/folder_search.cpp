#include "plugins/data/files/folder_search.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "core/base/utf8.hpp"
#include "plugins/data/files/error.hpp"
#include "plugins/data/files/packed_file.hpp"

namespace pipeline::files {
namespace {

namespace fs = std::filesystem;

// ".pdb", ".txt.gz"; "" without one.
std::string ending_of(std::string name) {
  name = in_small_letters(name);
  const std::string_view stem = without_packing(name);
  const size_t dot = stem.rfind('.');
  return name.substr(dot == std::string_view::npos || dot == 0 ? stem.size() : dot);
}

class Search {
 public:
  Search(FolderContents& found, const std::function<Use(const std::string&)>& use_of,
         const std::function<void()>& check)
      : found_(found), use_of_(use_of), check_(check) {}

  // `root`: the search fails if it cannot be read.
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
      throw DataError(path + ": " + error.message() + ": the folder must be readable", error.value());
    if (error)
      found_.unreadable.push_back({relative + "/", "a folder that cannot be searched: " + error.message()});
    std::sort(names.begin(), names.end());  // so that of two ways to a folder always the same one counts
    for (const auto& name : names)
      if (!name.starts_with('.'))
        entry(path + "/" + name, relative.empty() ? name : relative + "/" + name, name);
  }

 private:
  void entry(const std::string& path, const std::string& relative, const std::string& name) {
    struct stat status {};
    const int problem = ::stat(path.c_str(), &status) == 0 ? 0 : errno;
    if (problem == 0 && S_ISDIR(status.st_mode)) return folder(path, relative);
    if (problem != 0 && problem != ENOENT) {
      found_.unreadable.push_back(
          {relative, "cannot be looked at: " + std::generic_category().message(problem)});
      return;
    }
    const Use use = use_of_(name);
    if (use == Use::kTake)
      found_.files.push_back({path, relative, status, problem == 0});
    else if (use == Use::kIgnore)
      ++found_.ignored.by_ending[ending_of(name)];
  }

  FolderContents& found_;
  const std::function<Use(const std::string&)>& use_of_;
  const std::function<void()>& check_;
  std::set<std::pair<dev_t, ino_t>> searched_;
};

}  // namespace

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return small;
}

uint64_t IgnoredFiles::count() const {
  uint64_t count = 0;
  for (const auto& [ending, files_of_it] : by_ending) count += files_of_it;
  return count;
}

std::string IgnoredFiles::text() const {
  constexpr size_t kMost = 8;
  std::vector<std::pair<uint64_t, std::string>> counts;
  for (const auto& [ending, files_of_it] : by_ending)
    counts.emplace_back(files_of_it, ending.empty() ? "without an ending" : printable(ending, ""));
  std::stable_sort(counts.begin(), counts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const uint64_t all = count();
  std::string text = std::to_string(all) + (all == 1 ? " file: " : " files: ");
  uint64_t others = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i < kMost)
      text += (i == 0 ? "" : ", ") + counts[i].second + " " + std::to_string(counts[i].first);
    else
      others += counts[i].first;
  }
  return others == 0 ? text : text + ", others " + std::to_string(others);
}

FolderContents search_folder(const std::string& root,
                             const std::function<Use(const std::string& name)>& use_of,
                             const std::function<void()>& check) {
  FolderContents found;
  Search(found, use_of, check).folder(root, "", true);
  std::ranges::sort(found.files, {}, &FoundFile::relative);
  return found;
}

}  // namespace pipeline::files
