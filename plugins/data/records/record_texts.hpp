#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/sources/source_files.hpp"

namespace pipeline::records {

// A record of a JSON file, or a row of a Parquet file as JSON.
struct RecordText {
  std::string_view text;  // of one that is too long, only its start
  uint64_t line;          // of a file of JSON, where it starts; else the row's number; from 1
  bool is_too_long = false, is_cut_off = false;  // cut off: by the end of the file
};

struct RecordOptions {
  uint64_t max_bytes = uint64_t{16} << 20;
  std::vector<std::string> columns;        // those of Parquet that are read; empty: all
  std::function<void(uint64_t)> on_block;  // bytes read so far, often; may throw to stop
};

// "line", or "row".
const char* unit_of(sources::Format format);

// The records of a file of JSON or Parquet, in order, until `visit` returns false. Memory is that of a record
// (Parquet: of some rows). Throws DataError where the file cannot be read.
void for_each_record(const std::string& path, sources::Format format, const RecordOptions& options,
                     const std::function<bool(const RecordText&)>& visit);

// What a file's columns are called: those of Parquet, of the header of a table, or the keys of the first
// object in JSON. `wanted`: some that may be there, by which a table's separator is known. Empty: nobody
// knows. on_block: as RecordOptions has it.
std::vector<std::string> column_names(const std::string& path, sources::Format format,
                                      const std::vector<std::string>& wanted,
                                      const std::function<void(uint64_t)>& on_block = {});

// A note for people on those of `names` that are not `used`: `its columns "a" and "b" are not used`. Empty:
// all are.
std::string note_of_unused(const std::vector<std::string>& names, const std::vector<std::string>& used);

}  // namespace pipeline::records
