#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/summarization/data/input.hpp"

namespace pipeline::summarization {

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

}  // namespace pipeline::summarization
