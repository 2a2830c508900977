#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

namespace pipeline::files {

std::string in_small_letters(std::string_view text);  // changes ASCII letters alone

// Files that a search passed over, by ending: in small letters, with that of the packing, "" without one.
struct IgnoredFiles {
  std::map<std::string, uint64_t> by_ending;

  bool empty() const { return by_ending.empty(); }
  uint64_t count() const;
  std::string text() const;  // "12 files: .txt 9, .xyz.gz 3"; the most frequent endings first
};

struct FoundFile {
  std::string path;      // to open it by
  std::string relative;  // to the folder
  struct stat status;
  bool is_there;  // false: a dead link
};
// A folder (with "/" behind it) that cannot be searched, or an entry that cannot be looked at.
struct Unreadable {
  std::string relative, reason;
};

struct FolderContents {
  std::vector<FoundFile> files;  // sorted by relative path, byte by byte
  std::vector<Unreadable> unreadable;
  IgnoredFiles ignored;
};

enum class Use { kTake, kIgnore, kPassOver };  // kIgnore: it is counted

// The files below a folder, in folders of any depth, as `use_of` says of their names. Links are followed, a
// folder that is reached twice is searched once; hidden files and folders are passed over. Throws DataError
// for a root that cannot be read, and what `check` (optional, called often) throws.
FolderContents search_folder(const std::string& root,
                             const std::function<Use(const std::string& name)>& use_of,
                             const std::function<void()>& check = nullptr);

}  // namespace pipeline::files
