#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/records/input.hpp"

namespace pipeline::records {

// The records of a JSON file, as text and in order. JSON Lines: each line that is not blank is one. A file
// that begins with a list: each of its elements, over as many lines as it takes. One whose first line ends in
// an open bracket: each object. Memory is that of a record.
class JsonRecords {
 public:
  JsonRecords(Input& input, uint64_t max_record_bytes);

  // False at the end of the file.
  bool next();

  std::string_view text() const { return text_; }  // valid until the next call
  uint64_t line() const { return line_; }          // where it starts, from 1
  bool too_long() const { return too_long_; }      // the text is then only its start
  bool is_cut_off() const { return cut_off_; }     // by the end of the file

 private:
  enum Form { kLines, kList, kObjects };

  Form look_at_start();
  void begin();
  bool next_line();
  bool next_element();
  void keep(std::string_view piece);
  void take(size_t bytes);

  Input& input_;
  uint64_t max_bytes_;
  Form form_ = kLines;
  std::string kept_;  // of a record that does not lie in one block
  std::string_view text_;
  uint64_t line_ = 0, next_line_ = 1;
  bool too_long_ = false, cut_off_ = false;
};

// What a list begins with that is taken by items: it may be empty, and is no text. Between them is a
// character that texts do not have.
inline constexpr char kListMark = '\x1f', kListBreak = '\x1e';
// The items of such a list; of another text, itself.
std::vector<std::string> items_of(std::string_view text);

// A field of a JSON object.
struct JsonField {
  enum State {
    kAbsent,
    kNull,
    kText,
    kInteger,
    kNumber,
    kBool,
    kValues,
    kList,
    kObject,
    kBytes,  // bytes in Parquet that are no text
  } state = kAbsent;
  // The text of kText; the digits of numbers; 1 and 0 for kBool; for kValues, the values with commas in
  // between, none with a comma of its own, and nothing where there is null; by_item: kListMark, and the
  // values with kListBreak in between.
  std::string text;
};

// A record taken apart.
struct JsonFields {
  enum State { kOk, kNotAnObject, kLoneSurrogate, kUnfinished } state = kOk;
  std::string detail;              // of a state that is not kOk
  std::vector<JsonField> fields;   // as many as names were asked for
  std::vector<std::string> keys;   // the first few that are there
  std::vector<std::string> lists;  // those of them that hold lists
};

inline constexpr size_t kKeysShown = 8;  // of an object, for people

// Picks the named fields of an object, and so many keys; nested values are skipped at any depth. The text is
// valid UTF-8.
// by_item: of which fields lists are taken so.
JsonFields pick_fields(std::string_view text, const std::vector<std::string_view>& names,
                       size_t most_keys = kKeysShown, const std::vector<bool>& by_item = {});

}  // namespace pipeline::records
