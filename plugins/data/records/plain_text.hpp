#pragma once

#include <cstdint>
#include <string>

#include "plugins/data/records/input.hpp"

namespace pipeline::records {

// What a record of a plain text is: the whole file, however long, each line, or what blank lines divide.
enum class TextUnit { kFile, kLine, kParagraph };

// The records of a plain text, in order and exactly as they are, but for the line end behind a line or a
// paragraph. Blank lines are none. Memory is that of a record.
class PlainText {
 public:
  PlainText(Input& input, TextUnit unit, uint64_t max_record_bytes)
      : input_(input), unit_(unit), max_bytes_(unit == TextUnit::kFile ? UINT64_MAX : max_record_bytes) {}

  // False at the end of the file.
  bool next();

  std::string& text() { return text_; }
  uint64_t line() const { return line_; }  // where it starts, from 1
  bool too_long() const { return text_.size() > max_bytes_; }

 private:
  bool read_line();

  Input& input_;
  TextUnit unit_;
  uint64_t max_bytes_;
  std::string text_, next_;  // next_: a line, with its end
  uint64_t line_ = 0, lines_ = 0;
};

}  // namespace pipeline::records
