#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::records {

// Why a record is not used.
enum class DropReason {
  kNotAnObject,    // JSON: none, or no object
  kInvalidUtf8,    //
  kLoneSurrogate,  // JSON: a \u escape that is half of a pair
  kMissingField,   // JSON
  kWrongType,      // JSON: a field that is not text
  kEmptyField,     //
  kDuplicateId,    //
  kTooLong,        //
  kFieldCount,     // CSV: not as many fields as the header
  kBadQuotes,      // CSV: text after a closing quote
  kUnfinished,     // the file ends inside the record
  kNoSequence,     // of amino acids
  kBytes,          // Parquet: a field that is bytes, or is said to be text, and is not UTF-8
};

// Records that are not used for one reason.
struct Drop {
  DropReason reason{};
  std::string subject;  // where the reason is a field's: which one, and what it is: `"summary" is null`
  uint64_t count = 0;
  std::vector<uint64_t> lines;    // of the first few records
  std::vector<uint64_t> records;  // numbers of these, where another record is before it in the line; else 0
  std::string detail;             // of the first record, may be empty

  std::string problem() const;  // with the detail
  std::string remedy() const;
};

// What became of a file's records.
struct RecordReport {
  std::string unit = "line";  // what `lines` count
  uint64_t records = 0;       // blank lines are none
  uint64_t used = 0;
  std::vector<Drop> drops;
  std::vector<std::string> notes;  // how the file was read, where another reader may differ

  uint64_t dropped() const { return records - used; }
  void begin_record(uint64_t line);
  // Counts a drop of the record that has begun.
  void add_drop(DropReason reason, std::string detail = {}, const std::string& subject = {});

  // Lines for people: "3 of 100 records of train.jsonl were dropped", then one a reason with its count, first
  // lines and remedy. Empty if nothing was dropped.
  std::string table(const std::string& path) const;

  // For a file without a single usable record: its first line that was dropped, why, and the remedy.
  std::string nothing_usable(const std::string& path) const;

 private:
  uint64_t line_ = 0;  // of the record that has begun
  bool shares_line_ = false;
};

// The reports on all files of a source.
struct SourceReport {
  struct File {
    std::string path;
    RecordReport report;
  };
  std::vector<File> files;

  uint64_t sum(uint64_t RecordReport::*what) const;
  uint64_t records() const { return sum(&RecordReport::records); }
  uint64_t used() const { return sum(&RecordReport::used); }
  uint64_t dropped() const { return records() - used(); }
  std::string table() const;               // of the files that dropped records, the first few
  std::vector<std::string> notes() const;  // lines, each with its file's path
  void require_some() const;               // throws DataError where none is used

  std::string to_json() const;
  static SourceReport from_json(const std::string& text);  // throws DataError
};

}  // namespace pipeline::records
