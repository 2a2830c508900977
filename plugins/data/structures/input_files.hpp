#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/data/files/error.hpp"
#include "plugins/data/files/folder_search.hpp"
#include "plugins/data/files/hash128.hpp"
#include "plugins/data/structures/file_content.hpp"

namespace pipeline::structures {

struct InputFile {
  std::string path;      // to open it by
  std::string relative;  // to the folder that was searched; its name where a file was given
  FileState state;
};

// A file, and something about it.
struct FileNote {
  std::string path;  // relative
  std::string text;
};

struct InputFiles {
  std::string root;              // absolute and without links
  std::vector<InputFile> files;  // sorted by relative path, byte by byte
  // Folders (with "/" behind them) that cannot be searched, entries that cannot be looked at.
  std::vector<FileNote> unreadable;
  files::IgnoredFiles ignored;  // files that are no input
};

// All structure files below a folder, by their endings (.pdb .ent .cif .mmcif, and these with .gz, in any
// case); or the one file that is given, whatever its name. Links are followed, a folder that is reached twice
// is searched once; hidden files and folders are passed over, and so are the caches' own files. Throws
// DataError for a root that is not there or cannot be read, or when there is no input, and what `check`
// (optional, called often) throws.
InputFiles find_inputs(const std::string& root, const std::function<void()>& check);

// Whether the ending of its name is a structure's.
bool is_structure(const std::string& name);
// The path without the endings that make it an input.
std::string without_ending(const std::string& relative);

// What is known of the files below a root since they were last read: the hash of their content, or why they
// cannot be read. One whose state is the same need not be read again.
class FileIndex {
 public:
  struct Entry {
    struct Numbers {
      FileState state;
      files::Hash128 hash;  // of the content; of nothing if it cannot be read
      uint64_t limit = 0;   // max_file_bytes at that time
      int32_t code = 0;
      ReadError::Cause cause = ReadError::kKind;
      uint8_t reserved[3] = {};
    };
    Numbers is;
    std::string reason;  // why it cannot be read; empty if it can

    bool is_read() const { return reason.empty(); }
  };

  // <folder>/protein-files-<hash of the root's path>.index
  static std::string path_in(const std::string& folder, const std::string& root);

  FileIndex() = default;
  // Empty if there is no file, or one that is damaged or of another version: then problem() says so.
  explicit FileIndex(const std::string& path);

  const std::string& problem() const { return problem_; }
  const std::unordered_map<std::string, Entry>& entries() const { return entries_; }  // by relative path
  // nullptr if the file is not known, or not in this state.
  const Entry* find(const std::string& relative, const FileState& state) const;
  void set(const std::string& relative, Entry entry) {
    entries_.insert_or_assign(relative, std::move(entry));
  }
  // Replaces the file at once. Throws DataError.
  void save(const std::string& path) const;

 private:
  bool parse(std::string_view bytes);

  std::unordered_map<std::string, Entry> entries_;
  std::string problem_;
};

}  // namespace pipeline::structures
