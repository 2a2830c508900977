#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "files/appended_file.hpp"
#include "stores/record_store.hpp"

namespace pipeline::stores {

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
