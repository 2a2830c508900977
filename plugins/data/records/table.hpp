#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/records/input.hpp"
#include "plugins/data/records/plain_text.hpp"
#include "plugins/data/records/record_report.hpp"
#include "plugins/data/sources/source_files.hpp"

namespace pipeline::records {

// A key of JSON objects, or a name in the header row of CSV, whose values are wanted.
struct Column {
  std::string name;          // empty: none, and the field is never there
  bool required = false;     // a table without it is an error, and a record of JSON without it is dropped,
  bool may_be_null = false;  // unless it may have none
  enum Takes {
    kText,
    kTextOrInteger,  // an id
    kValues,         // also numbers, and truth values as 1 and 0
    kLists,          // also lists of all these, comma by comma,
    kWords,          // or item by item behind kListMark
  } takes = kText;
};

// A record, with a field for each column: valid UTF-8, exactly as in the file.
struct Row {
  std::vector<std::optional<std::string>> fields;
  uint64_t line = 0;  // where the record starts, from 1; of Parquet, its row
};

// What quotes mean in CSV and TSV: kCsv, a field may be quoted as in RFC 4180; kText, nothing. kAuto: the
// former in CSV, the latter in TSV, unless the header's first name is quoted.
enum class Quotes { kAuto, kCsv, kText };

// The option of tasks, which has the values "auto", "csv" and "text".
inline constexpr const char* kQuotesHelp =
    "what quotes mean in CSV and TSV: csv: a field may be quoted; text: nothing; auto: csv in CSV, and text "
    "in "
    "TSV unless its header is quoted";
Quotes quotes_named(std::string_view name);

struct ReadOptions {
  // Longer ones are dropped, and memory stays bounded by a few times this.
  uint64_t max_record_bytes = uint64_t{16} << 20;
  Quotes quotes = Quotes::kAuto;
  TextUnit text_unit = TextUnit::kFile;    // of plain text, which is the first column; others are not there
  std::function<void(uint64_t)> on_block;  // bytes read so far, often; may throw to stop
  // What to do about a column that is not there.
  std::string remedy = "name the columns in [task.data], by its keys that end in _column";
};

// Reads a file, one record at a time and in order: JSON (an object a line, or one list of objects), CSV with
// a header row as RFC 4180 has it, Parquet, or plain text. A record that is not usable is dropped and counted
// in `report` by reason; what `sink` gets is for the caller to count as used. Throws DataError when the file
// cannot be read or lacks a column; and, after rows perhaps, when the quotes of a TSV file cannot be what
// they are taken for. Memory is that of a record and a block of the file.
void read_table(const std::string& path, sources::Format format, const std::vector<Column>& columns,
                const std::function<void(Row&&)>& sink, RecordReport& report,
                const ReadOptions& options = {});

// Calls `read` for each file of a source, one after another, with a report of its own and options that tell
// bytes over all of them. Throws DataError where no record of any is used.
void read_tables(const sources::SourceFiles& source, const ReadOptions& options, SourceReport& report,
                 const std::function<void(const std::string& path, RecordReport& report,
                                          const ReadOptions& options)>& read);

}  // namespace pipeline::records
