#include "core/report/table.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/utf8.hpp"
#include "core/observe/json_lines.hpp"

namespace pipeline::report {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  return csv_field(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

std::string aligned(std::vector<std::vector<std::string>> rows) {
  std::vector<size_t> widths;
  for (auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = printable(row[i], "");
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}", row[i], widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string csv_of(const std::filesystem::path& json_lines) {
  std::vector<std::string> columns;
  struct Row {
    std::string cells;  // of the columns that were known
    size_t count;
  };
  std::vector<Row> rows;
  observe::JsonLines::read(json_lines, [&](size_t, const Json& json) {
    if (json.empty()) return;
    for (const auto& [name, unused] : json.items())
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
    Row row{.count = columns.size()};
    for (size_t i = 0; i < columns.size(); ++i)
      row.cells.append(i > 0 ? "," : "").append(cell(json.value(columns[i], Json())));
    rows.push_back(std::move(row));
  });
  std::string csv;
  for (size_t i = 0; i < columns.size(); ++i) csv.append(i > 0 ? "," : "").append(csv_field(columns[i]));
  if (!columns.empty()) csv += '\n';
  for (const Row& row : rows) csv.append(row.cells).append(columns.size() - row.count, ',') += '\n';
  return csv;
}

}  // namespace pipeline::report
