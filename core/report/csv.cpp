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
  std::vector<Json> rows;
  std::vector<std::string> columns;
  for (std::string line; std::getline(in, line);) {
    Json row = Json::parse(line, nullptr, false);
    if (!row.is_object()) continue;
    for (const auto& [name, unused] : row.items())
      if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
    rows.push_back(std::move(row));
  }
  std::string csv;
  const auto end_cell = [&](size_t column) { csv += column + 1 < columns.size() ? ',' : '\n'; };
  for (size_t i = 0; i < columns.size(); end_cell(i++)) csv += csv_field(columns[i]);
  for (const Json& row : rows)
    for (size_t i = 0; i < columns.size(); end_cell(i++)) csv += cell(row.value(columns[i], Json()));
  return csv;
}

}  // namespace pipeline::report
