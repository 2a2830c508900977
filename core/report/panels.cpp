#include "core/report/panels.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/base/csv.hpp"
#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/report/json_file.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uintmax_t kMostBytes = uintmax_t{20} << 20;
constexpr size_t kMostRows = 40;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code none;  // an empty list
  for (const auto& entry : fs::directory_iterator(folder, none)) entries.push_back(entry.path());
  std::ranges::sort(entries);
  return entries;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : kDigits[three >> (18 - 6 * j) & 63];
  }
  return text;
}

Json table(std::string title, std::vector<std::vector<std::string>> rows) {
  const size_t shown = std::min(rows.size(), kMostRows + 1), more = rows.size() - shown;
  rows.resize(shown);
  return {{"title", std::move(title)}, {"kind", "table"}, {"rows", std::move(rows)}, {"more", more}};
}

std::vector<std::vector<std::string>> cells_of(std::vector<CsvRow> rows) {
  std::vector<std::vector<std::string>> cells;
  for (CsvRow& row : rows) cells.push_back(std::move(row.cells));
  return cells;
}

Json read_evaluation(const fs::path& file) {
  Json evaluation = read_object(file);
  if (!evaluation.value("figures", Json::object()).is_object() ||
      !evaluation.value("step", Json(0U)).is_number_unsigned())
    throw Error(PL_ERROR_CONFIG, file.string() + ": is not as an evaluation writes it: move it away");
  return evaluation;
}

Json figures(std::string title, const Json& evaluation) {
  std::vector<std::vector<std::string>> rows{{"figure", "value"}};
  for (const auto& [name, value] : evaluation.at("figures").items())
    rows.push_back({name, value.is_number() ? fmt::format("{:.6g}", value.get<double>()) : "none"});
  return table(std::move(title), std::move(rows));
}

// What was changed with `run --change`.
std::optional<Json> changes(const RunRecord& run) {
  const fs::path file = run.path / "changes.json";
  const Json json = fs::exists(file) ? Json::parse(read_file(file), nullptr, false) : Json();
  if (!json.is_array()) return std::nullopt;
  std::vector<std::vector<std::string>> rows{{"after step", "option", "before", "now"}};
  for (const Json& change : json)
    rows.push_back({std::to_string(change.value("step", uint64_t{0})), change.value("key", ""),
                    change.value("before", ""), change.value("now", "")});
  return table(fmt::format("{}: changed on the way", run.name), std::move(rows));
}

}  // namespace

std::vector<Json> panels_of(const RunRecord& run) {
  std::vector<Json> panels;
  if (!fs::is_directory(run.path)) return panels;
  if (auto panel = changes(run)) panels.push_back(std::move(*panel));
  for (const fs::path& file : sorted_entries(run.path)) {
    const std::string name = file.stem().string();
    if (!name.starts_with("evaluation-") || file.extension() != ".json") continue;
    const Json evaluation = read_evaluation(file);
    if (!evaluation.contains("figures")) continue;
    panels.push_back(
        figures(fmt::format("{}: {} after step {}", run.name, name, evaluation.value("step", uint64_t{0})),
                evaluation));
    for (const fs::path& side : sorted_entries(run.path / (name + "-files"))) {
      std::error_code none;
      if (fs::file_size(side, none) > kMostBytes || none) continue;
      const std::string title = fmt::format("{}: {}", run.name, side.filename().string()),
                        kind = side.extension().string();
      if (kind == ".html")
        panels.push_back({{"title", title}, {"kind", "html"}, {"content", read_file(side)}});
      else if (kind == ".png")
        panels.push_back({{"title", title},
                          {"kind", "image"},
                          {"content", "data:image/png;base64," + base64(read_file(side))}});
      else if (kind == ".csv")
        panels.push_back(table(title, cells_of(csv_rows(read_file(side)))));
    }
  }
  return panels;
}

}  // namespace pipeline::report
