#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/tasks/common/files/mapped_file.hpp"
#include "plugins/tasks/protein/data/structure_record.hpp"

namespace pipeline::protein {

struct KeyHash {
  size_t operator()(const files::Hash128& key) const { return key.low; }
};

// The records of a cache file that are whole when it is opened, mapped for reading. Immutable; safe for concurrent use. Other processes
// may append meanwhile, which does not show here.
class StructureCache {
 public:
  // <folder>/protein-structures-<version of the parser>.cache
  static std::string path_in(const std::string& folder);

  StructureCache() = default;  // holds nothing
  // Reads all of the file and verifies every record. One that is not there holds nothing, and so does one of another kind or version.
  // Throws DataError if the file cannot be read.
  explicit StructureCache(const std::string& path);

  struct Record {
    uint64_t begin;  // of the header, in the file
    RecordHeader header;
    bool is_structure() const { return header.kind == static_cast<uint32_t>(RecordKind::kStructure); }
  };

  // nullptr if the key is not there.
  const Record* find(const files::Hash128& key) const;
  void append_chains_of(const Record& record, std::vector<ChainView>& chains) const;  // of a structure; valid as long as the cache
  std::string_view reason_of(const Record& record) const;                             // of a failure

  // For the writer: what of the file can stay. Records are in the order of the file.
  const std::vector<Record>& records() const { return records_; }
  std::string_view bytes_of(const Record& record) const;   // all of it, header and padding included
  bool is_ours() const { return ours_; }                   // it is there, of this kind and version
  uint64_t end() const { return end_; }                    // of the last whole record
  uint64_t damaged() const { return damaged_; }            // places before that with bytes that are no whole record
  const std::string& problem() const { return problem_; }  // a line for the log about what cannot be used; empty if all can

 private:
  void scan(int fd, uint64_t file_bytes);

  std::string path_, problem_;
  files::MappedFile file_;
  std::vector<Record> records_;
  std::unordered_map<files::Hash128, size_t, KeyHash> by_key_;
  bool ours_ = false;
  uint64_t end_ = 0, damaged_ = 0;
};

}  // namespace pipeline::protein
