#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/records/input.hpp"

namespace pipeline::records {

// Records of CSV as RFC 4180 defines it: fields separated by one character, quoted where they contain it, a
// line break or a quote (which is then doubled). Beyond the RFC: lines may end in "\n" or "\r" as well, and a
// quote inside an unquoted field stands for itself (5" disk). Lines without anything are skipped. Where
// quotes are text, no field is quoted: each line is a record.
class CsvReader {
 public:
  struct Form {
    char separator = ',';
    bool quotes_are_text = false;
  };

  CsvReader(Input& input, const Form& form, uint64_t max_record_bytes)
      : input_(input), form_(form), max_bytes_(max_record_bytes) {}

  // False at the end of the file.
  bool next();

  // The record's fields, as far as it could be read: fields beyond kMaxFields are counted and not kept.
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
  Form form_;
  uint64_t max_bytes_;
  std::vector<std::string> fields_;
  size_t field_count_ = 0;
  uint64_t record_line_ = 0, line_ = 1, record_bytes_ = 0;
  bool too_long_ = false, bad_quotes_ = false, unfinished_ = false, after_return_ = false;
};

// The header row of a table, as far as it lies in the file's first block: behind empty lines, and behind
// Excel's "sep=;".
std::string header_line(const std::string& path, const Input::OnBlock& on_block = nullptr);

// The names in a header row whose fields are separated so. They may be quoted.
std::vector<std::string> header_names(std::string_view line, char separator);

}  // namespace pipeline::records
