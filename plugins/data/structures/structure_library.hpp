#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/structures/file_content.hpp"
#include "plugins/data/structures/file_reader.hpp"
#include "plugins/data/structures/input_files.hpp"
#include "plugins/data/structures/structure_record.hpp"

namespace pipeline::structures {

// A file's path as the log can show it.
std::string printable_path(const std::string& path);

// Files that cannot be used, and behind a line that says so those that can but look odd: path and text in
// aligned columns, a line each with its end; of both kinds the first `most`, and where all are.
std::string library_report(const std::vector<FileNote>& unusable, const std::vector<FileNote>& odd,
                           size_t most, const std::string& all_path);

// Copies of other files, in the same way, behind a line that says so; empty if there are none.
std::string copies_report(const std::vector<FileNote>& copies);

// Writes a report to `path`, or removes the file if the report is empty. A file that is right already is not
// written again. False if that cannot be done.
bool write_report(const std::string& text, const std::string& path);

struct LibraryOptions {
  std::string root;       // a folder that is searched, or one file (input_files.hpp)
  std::string cache_dir;  // may be the same folder, and may serve several roots
  ReadLimits limits;
  double max_unusable_share = 0.5;  // of the files; more is an error. That none is usable always is
  std::string max_unusable_option = "max_unusable_share";  // what the user calls this share
};

struct LibraryCounts {
  uint64_t files = 0;  // inputs: structures + duplicates + unusable
  uint64_t structures = 0;
  uint64_t duplicates =
      0;                  // files with the chains of another one, the first by relative path, however packed
  uint64_t unusable = 0;  // folders and entries that cannot be read included
  uint64_t odd = 0;       // structures with something odd about their files
  uint64_t ignored = 0;   // other files
  uint64_t residues = 0;  // in the structures
  uint64_t read = 0;      // files read by this call
  uint64_t parsed = 0;    // files parsed by this call
};

// Views into the library.
struct StructureView {
  std::string_view name;  // the relative path without endings; with them where two are the same; in UTF-8
  files::Hash128 key;     // of the file's content
  std::span<const ChainView> chains;
};

// The structures in the files below a folder. Each file's content is parsed once and kept in the cache
// folder; opening again reads only files that are new or changed. Immutable; safe for concurrent use.
class StructureLibrary {
 public:
  // When several processes open at once with one cache folder, one reads and parses what is new while the
  // others wait. One file that cannot be used never fails the call. Throws DataError (root, no input, too
  // many unusable files, cache folder), or Cancelled.
  static StructureLibrary open(const LibraryOptions& options, const files::Hooks& hooks);

  uint64_t size() const { return structures_.size(); }
  // i < size(), sorted by name. Verifies all of it, and throws DataError if the cache was changed since it
  // was opened. [any-thread]
  StructureView structure(uint64_t i) const;
  // Files sorted by path, with what there is to say: why they cannot be used; what is odd, although they are
  // used; what they are copies of, so that they are not.
  const std::vector<FileNote>& unusable() const { return unusable_; }
  const std::vector<FileNote>& odd() const { return odd_; }
  const std::vector<FileNote>& copies() const { return copies_; }
  const LibraryCounts& counts() const { return counts_; }
  // Tables of unusable and odd ones, the first 20 of each; empty if there are none. All of them, and the
  // copies, are in <cache_dir>/protein-unusable-<8 digits>.txt.
  std::string report() const;

  // Equal where all names and contents of the structures, and the parser, are: what ranks compare.
  const files::Hash128& fingerprint() const { return fingerprint_; }

 private:
  struct Entry {
    std::string name;
    files::Hash128 key;
    size_t first_chain, chains;
  };
  StructureLibrary() = default;
  void note_copies(const files::Hooks& hooks) const;

  stores::RecordStore cache_;
  std::vector<Entry> structures_;
  std::vector<ChainView> chains_;
  std::vector<FileNote> unusable_, odd_, copies_;
  LibraryCounts counts_;
  std::string report_path_;
  files::Hash128 fingerprint_;
};

struct Built {
  stores::RecordStore cache;               // has the content of every file that could be read
  std::vector<FileIndex::Entry> outcomes;  // one a file
  uint64_t read = 0, parsed = 0;
};

// Brings the cache and the index of the folder up to date with the files, under a lock if there is anything
// to do. Where the cache folder may only be read, new files are left out, with that as their reason. Throws
// DataError or Cancelled.
Built build_library(const InputFiles& inputs, const LibraryOptions& options, const files::Hooks& hooks);

}  // namespace pipeline::structures
