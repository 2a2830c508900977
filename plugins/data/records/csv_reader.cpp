#include "plugins/data/records/csv_reader.hpp"

#include <algorithm>

namespace pipeline::records {
namespace {

bool ends_line(int c) { return c == '\n' || c == '\r'; }

}  // namespace

// The next byte, lines counted: "\r\n", "\n" and "\r" end one each.
int CsvReader::take() {
  const int c = input_.peek();
  if (c < 0) return c;
  input_.advance(1);
  if (c == '\r' || (c == '\n' && !after_return_)) ++line_;
  after_return_ = c == '\r';
  return c;
}

void CsvReader::count_byte() { too_long_ = ++record_bytes_ > max_bytes_; }

void CsvReader::append(char c) {
  count_byte();
  if (!too_long_ && field_count_ <= kMaxFields) fields_.back() += c;
}

// Reads from behind the opening quote to behind the closing one.
void CsvReader::read_quoted() {
  while (true) {
    const int c = take();
    if (c < 0) {
      unfinished_ = true;
      return;
    }
    if (c == '"') {
      if (input_.peek() != '"') return;
      take();
    }
    append(static_cast<char>(c));
  }
}

// One field with what ends it; true if another follows in the record.
bool CsvReader::read_field() {
  ++field_count_;
  count_byte();  // what separates it from the next
  if (field_count_ <= kMaxFields) fields_.emplace_back();
  bool closed = false;
  if (!form_.quotes_are_text && input_.peek() == '"') {
    take();
    read_quoted();
    closed = true;
  }
  while (true) {
    const int c = input_.peek();
    if (c < 0) return false;
    take();
    if (c == form_.separator) return true;
    if (ends_line(c)) {
      if (c == '\r' && input_.peek() == '\n') take();
      return false;
    }
    if (closed) bad_quotes_ = true;
    append(static_cast<char>(c));
  }
}

bool CsvReader::next() {
  while (ends_line(input_.peek())) take();
  if (input_.peek() < 0) return false;
  fields_.clear();
  field_count_ = 0;
  record_bytes_ = 0;
  too_long_ = bad_quotes_ = unfinished_ = false;
  record_line_ = line_;
  while (read_field()) {
  }
  return true;
}

std::string header_line(const std::string& path, const Input::OnBlock& on_block) {
  Input input(path, on_block);
  skip_line_ends(input);
  std::string_view line = input.ahead();
  if (line.starts_with("sep=")) line.remove_prefix(std::min(line.find('\n') + 1, line.size()));
  return std::string(line.substr(0, line.find_first_of("\r\n")));
}

std::vector<std::string> header_names(std::string_view line, char separator) {
  std::vector<std::string> names(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == separator && !quoted)
      names.emplace_back();
    else
      names.back() += c;
  }
  return names;
}

}  // namespace pipeline::records
