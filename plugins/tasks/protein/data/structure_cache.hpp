#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/tasks/common/files/mapped_file.hpp"
#include "plugins/tasks/common/files/open_file.hpp"
#include "plugins/tasks/protein/data/structure_record.hpp"

namespace pipeline::protein {

struct KeyHash {
  size_t operator()(const files::Hash128& key) const { return key.low; }
};

// The records of a cache file, mapped for reading. Those that its directory knows are not looked at until they are asked for; the others
// are verified when it is opened. Immutable; safe for concurrent use. Other processes may append meanwhile, which does not show here; one
// that changes what is there already is noticed by is_whole() and check().
class StructureCache {
 public:
  using Record = CacheRecord;

  // <folder>/protein-structures-<version of the parser>.cache
  static std::string path_in(const std::string& folder);

  StructureCache() = default;  // holds nothing
  // One that is not there holds nothing, and so does one of another kind or version. Throws DataError if the file cannot be read.
  explicit StructureCache(const std::string& path);

  // nullptr if the key is not there.
  const Record* find(const files::Hash128& key) const;
  bool is_whole(const Record& record) const;  // reads and verifies all of it: nothing else may be asked of one that is not
  void check(const Record& record) const;     // that one that was whole still is: throws DataError, with what to do, if it is not
  void append_chains_of(const Record& record, std::vector<ChainView>& chains) const;  // of a structure; valid as long as the cache
  std::string_view reason_of(const Record& record) const;                             // of a failure
  std::string_view remark_of(const Record& record) const;                             // of a structure; empty if there is none

  void save_directory() const;  // throws DataError

  // For the writer: what of the file can stay.
  const std::vector<Record>& records() const { return records_; }  // one a key, in the order of the file
  std::string_view bytes_of(const Record& record) const;           // all of it, header and padding included
  bool is_ours() const { return ours_; }                           // it is there, of this kind and version
  uint64_t end() const { return end_; }                            // of the last whole record
  bool has_directory() const { return has_directory_; }            // of this file
  uint64_t scanned() const { return scanned_; }                    // records that the directory did not know
  uint64_t damaged() const { return damaged_; }                    // places among those with bytes that are no whole record
  const std::string& problem() const { return problem_; }          // a line for the log about what cannot be used; empty if all can
  static std::string damage_text(const std::string& path, uint64_t places);

 private:
  void find_records(uint64_t file_bytes);
  bool is_all_there() const;  // what is mapped of the file: to touch what is not would end the process
  void add(const Record& record);
  std::string_view body_of(const Record& record) const;

  std::string path_, problem_;
  files::OpenFile opened_;
  files::MappedFile file_;  // its first end_ bytes
  std::vector<Record> records_;
  std::unordered_map<files::Hash128, size_t, KeyHash> by_key_;
  files::Hash128 id_;
  bool ours_ = false, has_directory_ = false;
  uint64_t end_ = 0, scanned_ = 0, damaged_ = 0;
};

}  // namespace pipeline::protein
