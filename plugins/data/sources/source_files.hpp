// The files that a source of data has: one, those that a pattern matches, or a folder's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/error.hpp"
#include "files/folder_search.hpp"
#include "files/hash128.hpp"

namespace pipeline::sources {

using files::DataError;
using files::Hash128;

enum class Format { kJson, kCsv, kTsv, kParquet, kText, kTar, kPictures, kFasta, kStockholm };

// What a task reads: files of other formats are none of its data.
enum class Content {
  kRecords,    // JSON, CSV, TSV, Parquet and archives
  kPictures,   // kRecords, or a folder of pictures with texts beside them: cat.jpg and cat.txt
  kSequences,  // of proteins: FASTA, Stockholm, JSON, CSV, TSV and Parquet
  kTexts,      // plain text, JSON, CSV, TSV and Parquet
};

// The format that the ending of a name says, behind which there may be one of a packed file.
std::optional<Format> format_named(std::string_view name, Content content = Content::kRecords);
// FASTA or Stockholm, which say it where they begin.
std::optional<Format> format_that_begins(std::string_view start);
// For messages: ".jsonl, .ndjson, ..., with .gz or .zst behind it where it is packed".
std::string known_endings(Content content = Content::kRecords);

// "train.jsonl", "data" also of "data/", "train-*.parquet": for messages, and for names of caches.
std::string name_of(const std::filesystem::path& named);

struct SourceFiles {
  std::string named;               // by the configuration
  std::vector<std::string> paths;  // in order; at least one
  std::vector<std::string> names;  // see name_of()
  Content content{};
  files::IgnoredFiles ignored;  // beside those of a folder that is searched
  Format format{};              // of all of them
  uint64_t bytes = 0;           // of all of them
  std::string state;            // names, sizes and times, as they were found
  Hash128 hash;                 // of format and content; of archives, of their names as well

  std::string name() const { return sources::name_of(named); }
  std::string stem() const;  // without what a file name may not have, and without endings
  // What file i is called among several; empty for a single one.
  const std::string& name_of(size_t i) const { return names[i]; }
};

// Why there is nothing at `named`, which may have *, ? and [...], {00..12} and {a,b}, as in a shell; of a
// folder, why none of its files can be read. Empty: there is something. Reads no file.
std::string problem_of(const std::string& named, Content content = Content::kRecords);

// The files of a source: of a folder, those of a known format, hidden ones left out, and those of its
// partitions (partition_of()); for sequences and texts also those in the folders within. Throws DataError
// where there is none, where they are of several formats, or of several splits (train, test, ...).
SourceFiles find(const std::string& named, Content content = Content::kRecords);

// find() with the hash. A source whose files have not changed since it was read for that is not read again:
// the cache folder has the hash. `hooks` tells bytes.
SourceFiles find_and_hash(const std::string& named, const std::string& cache_folder,
                          const files::Hooks& hooks, Content content = Content::kRecords);

// The hash of some files' content alone, which the cache folder remembers likewise.
Hash128 hash_of_files(const std::vector<std::string>& paths, const std::string& cache_folder,
                      const files::Hooks& hooks);

// Throws DataError if a file has changed, or came or went, since find().
void check_unchanged(const SourceFiles& source);

}  // namespace pipeline::sources
