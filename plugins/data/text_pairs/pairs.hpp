#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plugins/data/sources/source_files.hpp"
#include "plugins/data/text_pairs/input.hpp"
#include "plugins/data/text_pairs/pair_report.hpp"

namespace pipeline::text_pairs {

// Nothing but white space (Unicode's White_Space), U+200B (zero width space) and U+FEFF (byte-order mark).
// The text is UTF-8.
bool is_blank(std::string_view text);

struct Pair {
  std::string id;      // as in the file, or the number of the record (from 1) where the file has no ids
  std::string first;   // valid UTF-8, not blank; exactly as in the file, NUL characters included
  std::string second;  // the same, but empty if absent and not required
  std::string extra;   // the same, but empty if absent
  uint64_t line = 0;   // where the record starts, from 1; of Parquet, its row
};

// What the fields are called: keys of JSON objects, or names in the header row of CSV.
struct Columns {
  std::string first = "document";
  std::string second = "summary";
  std::string id = "id";
  std::string extra;            // a third text, which may be absent; empty: none is looked for
  bool second_required = true;  // false for files that are only predicted
  bool id_required = false;
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
  std::function<void(uint64_t)> on_block;  // bytes read so far, often; may throw to stop
};

// Reads pairs of texts from a file, one record at a time and in order: JSON (an object a line, or one list of
// objects), CSV with a header row as RFC 4180 has it, or Parquet. A pair that is not usable is dropped and
// counted in `report` by reason. Throws DataError when the file cannot be read or lacks a column; and, after
// pairs perhaps, when the quotes of a TSV file cannot be what they are taken for. Beside a record and a block
// of the file the memory used is that of a hash for each explicit id (to find duplicates).
void read_pairs(const std::string& path, sources::Format format, const Columns& columns,
                const std::function<void(Pair&&)>& sink, PairReport& report, const ReadOptions& options = {});

// The same of all files of a source, one after another. Ids are unique within a file; of several files each
// id begins with its file's name. `where`, for people: "line 3". Throws DataError where no file has a usable
// pair.
void read_pairs(const sources::SourceFiles& source, const Columns& columns,
                const std::function<void(Pair&&, const std::string& where)>& sink, SourceReport& report,
                const ReadOptions& options = {});

}  // namespace pipeline::text_pairs
