#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plugins/tasks/protein/data/file_content.hpp"

namespace pipeline::protein {

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
  std::map<std::string, uint64_t> ignored;  // files that are no input, by ending (lower case, "" without one)

  uint64_t ignored_count() const;
  std::string ignored_text() const;  // "12 files: .txt 9, .xyz 3"; the most frequent endings first
};

// All structure files below a folder, by their endings (.pdb .ent .cif .mmcif, and these with .gz, in any
// case); or the one file that is given, whatever its name. Links are followed, a folder that is reached twice
// is searched once; hidden files and folders are passed over, and so are the caches' own files. Throws
// DataError for a root that is not there or cannot be read, or when there is no input, and what `check`
// (optional, called often) throws.
InputFiles find_inputs(const std::string& root, const std::function<void()>& check);

// Without the endings that make it an input.
std::string without_ending(const std::string& relative);

}  // namespace pipeline::protein
