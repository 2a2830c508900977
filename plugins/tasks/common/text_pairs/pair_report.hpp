#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pipeline::text_pairs {

// Why a record is not used.
enum class DropReason {
  kNotAnObject,    // JSONL: no JSON, or no object
  kInvalidUtf8,    //
  kLoneSurrogate,  // JSONL: a \u escape that is half of a pair
  kMissingField,   // JSONL
  kWrongType,      // JSONL: a field that is not text
  kEmptyField,     //
  kDuplicateId,    //
  kTooLong,        //
  kFieldCount,     // CSV: not as many fields as the header
  kBadQuotes,      // CSV: text after a closing quote
  kUnfinished,     // the file ends inside the record
};
constexpr size_t kDropReasons = 11;

struct Drop {
  uint64_t count = 0;
  std::vector<uint64_t> lines;  // the first few
  std::string detail;           // of the first one, may be empty
};

// What became of a file's records.
struct PairReport {
  uint64_t records = 0;  // blank lines are none
  uint64_t pairs = 0;    // used
  std::array<Drop, kDropReasons> drops;

  const Drop& drop(DropReason reason) const { return drops[static_cast<size_t>(reason)]; }
  uint64_t dropped() const { return records - pairs; }
  void add_drop(DropReason reason, uint64_t line, std::string detail);

  // Lines for people: "3 of 100 records of train.jsonl were dropped", then one a reason with its count, first
  // lines and remedy. Empty if nothing was dropped.
  std::string table(const std::string& path) const;

  // For a file without a single usable pair: its first line that was dropped, why, and the remedy.
  std::string nothing_usable(const std::string& path) const;

  // One line of JSON and back; from_json throws DataError.
  std::string to_json() const;
  static PairReport from_json(const std::string& text);
};

}  // namespace pipeline::text_pairs
