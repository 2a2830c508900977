#include "core/report/csv.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/error.hpp"

namespace pipeline::report {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const Json& value) {
  if (value.is_null()) return "";
  return csv_field(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

std::string csv_of(const std::filesystem::path& json_lines) {
  std::ifstream in(json_lines);
  if (!in) throw Error(PL_ERROR_CONFIG, json_lines.string() + ": cannot be read");
  std::vector<std::string> columns;
  struct Row {
    std::string cells;  // of the columns that were known
    size_t count;
  };
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.empty()) continue;
    for (const auto& [name, unused] : json.items())
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
    Row row{.cells = {}, .count = columns.size()};
    for (size_t i = 0; i < columns.size(); ++i)
      row.cells.append(i > 0 ? "," : "").append(cell(json.value(columns[i], Json())));
    rows.push_back(std::move(row));
  }
  std::string csv;
  for (size_t i = 0; i < columns.size(); ++i) csv.append(i > 0 ? "," : "").append(csv_field(columns[i]));
  if (!columns.empty()) csv += '\n';
  for (const Row& row : rows) csv.append(row.cells).append(columns.size() - row.count, ',') += '\n';
  return csv;
}

}  // namespace pipeline::report
