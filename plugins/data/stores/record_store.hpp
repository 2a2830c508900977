// A file of records, to be appended to. Little-endian, everything at multiples of 8 bytes:
//
//   FileHeader
//   records     each a RecordHeader and its payload, padded with zeros; of two with one key the later counts
//
// A record says by itself where it ends and whether it is whole. So one that is cut off or damaged is
// noticed, those after it are found, and a reader walks from header to header without reading the payloads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "files/appended_file.hpp"
#include "files/hash128.hpp"
#include "files/regular_file.hpp"

namespace pipeline::stores {

using files::Hash128;

// Everything in a file begins at multiples of this.
constexpr size_t kAlignment = 8;

constexpr uint64_t padded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// What a file of records is for. A file of another name or version is never misread: it is made again.
struct Kind {
  std::string_view name;  // in the file; 8 characters
  uint32_t version;       // raised whenever the same key would give other bytes
  // For messages: what happens to records that are lost ("the files are parsed again").
  std::string_view remedy;
};

struct FileHeader {
  char magic[8];
  char name[8];
  uint32_t version, reserved;
  uint64_t hash;  // the low half of the hash of what is before

  explicit FileHeader(const Kind& kind);
};

struct RecordHeader {
  uint64_t magic;
  Hash128 key;
  uint64_t bytes;  // of the payload, without padding
  Hash128 hash;    // of payload and padding
  uint64_t header_hash;

  RecordHeader() = default;
  RecordHeader(const Hash128& for_key, uint64_t payload_bytes, const Hash128& payload_hash);
  bool is_right() const;
};

// A whole record, ready to be appended. [any-thread]
std::string make_record(const Hash128& key, std::string_view payload);

static_assert(sizeof(FileHeader) == 32 && sizeof(RecordHeader) == 56);
static_assert(std::endian::native == std::endian::little);

using Keys = std::unordered_set<Hash128>;

// A record, and where its payload lies in the file.
struct Record {
  Hash128 key;
  uint64_t begin = 0, bytes = 0;
  Hash128 hash;

  uint64_t end() const { return begin + padded(bytes); }
};

// The records of a file, mapped for reading. Opening reads their headers only: whoever uses a record verifies
// it. Immutable; safe for concurrent use. Other processes may append meanwhile, which does not show here, or
// put another file in its place; one that changes what is there is noticed by is_whole() and check().
class RecordStore {
 public:
  RecordStore() = default;  // holds nothing
  // A file that is missing holds nothing, and so does one of another kind. Throws DataError if it cannot be
  // read.
  RecordStore(const std::string& path, const Kind& kind);

  const Record* find(const Hash128& key) const;  // nullptr if the key is not there
  // Reads and verifies all of the record. Nothing else may be asked of one that is not whole.
  bool is_whole(const Record& record) const;
  // Checks that a record that was whole still is: throws DataError, with what to do, if it is not.
  void check(const Record& record) const;
  // To be told of each reading: not all of a large file stays in the process's memory. check() tells it.
  void was_read(const Record& record) const { file_.count_read(record.bytes); }
  // The payload, at a multiple of 8 bytes. Valid as long as the store.
  std::string_view payload(const Record& record) const {
    return file_.bytes().substr(record.begin, record.bytes);
  }
  // The record's bytes, header and padding included.
  std::string_view bytes_of(const Record& record) const;

  const std::vector<Record>& records() const { return records_; }  // one a key, in the order of the file
  const std::string& path() const { return path_; }
  bool is_there() const { return file_.is_open(); }
  bool is_ours() const { return end_ > 0; }  // it is there, and of this kind
  uint64_t end() const { return end_; }      // of the last record
  // A line for the log about what cannot be used; empty if all can.
  const std::string& problem() const { return problem_; }
  std::string damage_text(uint64_t places) const;

 private:
  void find_records(uint64_t file_bytes);
  void add(const Record& record);

  std::string path_, problem_;
  Kind kind_{};
  files::MappedFile file_;  // its first end_ bytes
  std::vector<Record> records_;
  std::unordered_map<Hash128, size_t> by_key_;
  uint64_t end_ = 0;
};

// Files that hold one thing and are replaced as a whole: a store of one record.

// nullopt if there is no such file, and with `problem` set if there is one that is damaged or of another kind
// or key. Throws DataError if what is there cannot be read, a folder for example.
std::optional<std::string> load(const std::string& path, const Kind& kind, const Hash128& key, bool& problem);

// Replaces the file at once. Throws DataError.
void save(const std::string& path, const Kind& kind, const Hash128& key, std::string_view payload);

// Writes records to a file. One process at a time: the caller holds a lock. Others may be reading the file,
// or have it mapped up to the last record that was there when they opened it; that part never changes. A new
// file is written as <path>.part, so that whoever has the old one open keeps it; what a killed process left
// of that name is overwritten. All throws DataError.
class RecordWriter {
 public:
  // A file that takes the place of whatever has the name when replace() is called, and goes if it never is.
  RecordWriter(const std::string& path, const Kind& kind);
  // Appends to the file as `store` found it, without a tail that is not whole; a new file if it is not ours.
  RecordWriter(const RecordStore& store, const Kind& kind);

  void append(std::string_view record) { file_->append(record); }  // what make_record() gave
  void sync() { file_->sync(); }
  void replace() { file_->replace(); }  // syncs, and gives the file its name

 private:
  std::optional<files::AppendedFile> file_;
};

// Whether so much of a file is of other keys that it should be written anew: more than 1 MiB, and than half.
bool is_mostly_other_than(const RecordStore& store, const Keys& keys);

// Writes the file anew with those records that are whole and of these keys, and opens it again.
void keep_only(RecordStore& store, const Kind& kind, const Keys& keys);

}  // namespace pipeline::stores
