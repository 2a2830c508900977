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
    rows.push_back({name, value.is_number()   ? fmt::format("{:.6g}", value.get<double>())
                          : value.is_string() ? value.get<std::string>()
                                              : "none"});
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

// A file that a task made beside a result; nothing where it is none to show, or too large.
std::optional<Json> side_panel(const std::string& run, const fs::path& file) {
  std::error_code none;
  if (fs::file_size(file, none) > kMostBytes || none) return std::nullopt;
  const std::string title = fmt::format("{}: {}", run, file.filename().string()),
                    kind = file.extension().string();
  if (kind == ".csv") return table(title, cells_of(csv_rows(read_file(file))));
  if (kind == ".html") return Json{{"title", title}, {"kind", "html"}, {"content", read_file(file)}};
  if (kind != ".png" && kind != ".svg") return std::nullopt;
  const char* const type = kind == ".png" ? "png" : "svg+xml";
  return Json{{"title", title},
              {"kind", "image"},
              {"content", fmt::format("data:image/{};base64,{}", type, base64(read_file(file)))}};
}

void add_evaluations(const RunRecord& run, std::vector<Json>& panels) {
  for (const fs::path& file : sorted_entries(run.path)) {
    const std::string name = file.stem().string();
    if (!name.starts_with("evaluation-") || file.extension() != ".json") continue;
    const Json evaluation = read_evaluation(file);
    if (!evaluation.contains("figures")) continue;
    panels.push_back(
        figures(fmt::format("{}: {} after step {}", run.name, name, evaluation.value("step", uint64_t{0})),
                evaluation));
    for (const fs::path& side : sorted_entries(run.path / (name + "-files")))
      if (auto panel = side_panel(run.name, side)) panels.push_back(std::move(*panel));
  }
}

// Predictions may have files for each of many samples: the pictures of the first few are shown, and none of
// their tables.
void add_predictions(const RunRecord& run, std::vector<Json>& panels) {
  constexpr size_t kMostPictures = 12;
  for (const fs::path& file : sorted_entries(run.path)) {
    if (file.extension() != ".csv") continue;
    std::vector<fs::path> pictures = sorted_entries(run.path / (file.stem().string() + "-files"));
    std::erase_if(pictures, [](const fs::path& side) {
      return side.extension() != ".svg" && side.extension() != ".png";
    });
    for (size_t i = 0; i < std::min(pictures.size(), kMostPictures); ++i)
      if (auto panel = side_panel(run.name, pictures[i])) panels.push_back(std::move(*panel));
    if (pictures.size() > kMostPictures)
      panels.push_back(table(fmt::format("{}: {} more pictures", run.name, pictures.size() - kMostPictures),
                             {{"folder"}, {pictures.front().parent_path().string()}}));
  }
}

}  // namespace

std::vector<Json> panels_of(const RunRecord& run) {
  std::vector<Json> panels;
  if (!fs::is_directory(run.path)) return panels;
  if (auto panel = changes(run)) panels.push_back(std::move(*panel));
  add_evaluations(run, panels);
  add_predictions(run, panels);
  return panels;
}

}  // namespace pipeline::report
