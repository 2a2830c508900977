#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plugins/data/records/record_report.hpp"
#include "plugins/data/records/table.hpp"
#include "plugins/data/sources/source_files.hpp"

namespace pipeline::records {

// Nothing but white space (Unicode's White_Space), U+200B (zero width space) and U+FEFF (byte-order mark).
// The text is UTF-8.
bool is_blank(std::string_view text);

// What pandas reads as missing, and writes where a column becomes text: "nan", "None", "<NA>", ...
bool is_word_for_none(std::string_view text);
// A note for people on so many texts that are such words; empty: there are none.
std::string note_of_words_for_none(uint64_t count);

struct Pair {
  std::string id;      // as in the file, or the number of the record (from 1) where the file has no ids
  std::string first;   // valid UTF-8, not blank; exactly as in the file, NUL characters included
  std::string second;  // like `first`, but empty if absent and not required
  std::string extra;   // like `first`, but empty if absent
  uint64_t line = 0;   // where the record starts, from 1; of Parquet, its row
};

// What the fields are called: keys of JSON objects, or names in the header row of CSV.
struct Columns {
  std::string first = "document";
  std::string second = "summary";
  std::string id = "id";
  std::string extra;            // a third text, which may be absent; empty: none is looked for
  bool second_required = true;  // false for files that are only predicted
  bool extra_required = false;
  Column::Takes first_takes = Column::kText, second_takes = Column::kText, extra_takes = Column::kText;
  bool id_required = false;
};

// Reads pairs of texts from a file, one record at a time and in order: JSON (an object a line, or one list of
// objects), CSV with a header row as RFC 4180 has it, or Parquet. A pair that is not usable is dropped and
// counted in `report` by reason. Throws DataError when the file cannot be read or lacks a column; and, after
// pairs perhaps, when the quotes of a TSV file cannot be what they are taken for. Beside a record and a block
// of the file the memory used is that of a hash for each explicit id (to find duplicates).
void read_pairs(const std::string& path, sources::Format format, const Columns& columns,
                const std::function<void(Pair&&)>& sink, RecordReport& report,
                const ReadOptions& options = {});

// Reads the pairs of all files of a source, one after another. Ids are unique within a file; of several files
// each id begins with its file's name. `where`, for people: "line 3". Throws DataError where no file has a
// usable pair.
void read_pairs(const sources::SourceFiles& source, const Columns& columns,
                const std::function<void(Pair&&, const std::string& where)>& sink, SourceReport& report,
                const ReadOptions& options = {});

}  // namespace pipeline::records
