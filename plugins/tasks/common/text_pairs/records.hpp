#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/common/text_pairs/input.hpp"

namespace pipeline::text_pairs {

// Records of CSV as RFC 4180 defines it: fields separated by one character, quoted where they contain it, a
// line break or a quote (which is then doubled). Beyond the RFC: lines may end in "\n" or "\r" as well, and a
// quote inside an unquoted field stands for itself (5" disk). Lines without anything are skipped.
class CsvReader {
 public:
  CsvReader(Input& input, char separator, uint64_t max_record_bytes)
      : input_(input), separator_(separator), max_bytes_(max_record_bytes) {}

  // False at the end of the file.
  bool next();

  // Of the record, as far as it could be read: fields beyond kMaxFields are counted and not kept.
  const std::vector<std::string>& fields() const { return fields_; }
  std::vector<std::string>& fields() { return fields_; }
  size_t field_count() const { return field_count_; }
  uint64_t line() const { return record_line_; }  // where it starts, from 1
  bool too_long() const { return too_long_; }
  bool bad_quotes() const { return bad_quotes_; }  // something is between a closing quote and the separator
  bool unfinished() const { return unfinished_; }  // the file ended inside quotes

  static constexpr size_t kMaxFields = 4096;

 private:
  int take();
  void read_quoted();
  bool read_field();
  void append(char c);
  void count_byte();

  Input& input_;
  char separator_;
  uint64_t max_bytes_;
  std::vector<std::string> fields_;
  size_t field_count_ = 0;
  uint64_t record_line_ = 0, line_ = 1, record_bytes_ = 0;
  bool too_long_ = false, bad_quotes_ = false, unfinished_ = false, after_return_ = false;
};

// Lines of bounded length.
class LineReader {
 public:
  LineReader(Input& input, uint64_t max_bytes) : input_(input), max_bytes_(max_bytes) {}

  // False at the end of the file. The line, without its end ("\n" or "\r\n"), is valid until the next call.
  bool next();

  std::string_view line() const { return line_; }
  uint64_t number() const { return number_; }          // from 1
  bool too_long() const { return too_long_; }          // the line is then only its start
  bool has_line_end() const { return has_line_end_; }  // false for a last line that nothing ends

 private:
  Input& input_;
  uint64_t max_bytes_;
  std::string kept_;  // of a line that goes over the end of a block
  std::string_view line_;
  uint64_t number_ = 0;
  bool too_long_ = false, has_line_end_ = false;
};

// A field of a JSON object.
struct JsonField {
  enum State { kAbsent, kNull, kText, kInteger, kOther } state = kAbsent;
  std::string text;  // of kText; the digits of kInteger
};

// One line of JSONL taken apart.
struct JsonFields {
  enum State { kOk, kNotAnObject, kLoneSurrogate, kUnfinished } state = kOk;
  std::string detail;             // of a state that is not kOk
  std::vector<JsonField> fields;  // as many as names were asked for
  std::vector<std::string> keys;  // the first few keys that are there, for messages
};

// Picks the named fields of an object; nested values are skipped at any depth. The text is valid UTF-8.
JsonFields pick_fields(std::string_view text, const std::vector<std::string_view>& names);

}  // namespace pipeline::text_pairs
