#include "core/base/csv.hpp"

#include <utility>

namespace pipeline {

std::vector<CsvRow> csv_rows(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<CsvRow> rows;
  CsvRow row{.line = 1, .cells{""}};
  size_t line = 1;
  bool quoted = false;
  const auto end_row = [&] {
    if (row.cells.size() > 1 || !row.cells[0].empty()) rows.push_back(std::move(row));
    row = {.line = line, .cells{""}};
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    line += c == '\n' ? 1 : 0;
    if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      row.cells.back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      row.cells.emplace_back();
    } else if (c == '\n' && !quoted) {
      end_row();
    } else if (c != '\r' || quoted) {
      row.cells.back() += c;
    }
  }
  end_row();
  return rows;
}

}  // namespace pipeline
