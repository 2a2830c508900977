#include "core/report/run_record.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/csv.hpp"
#include "core/base/fail.hpp"
#include "core/base/files.hpp"
#include "core/observe/json_lines.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Use = observe::JsonLines::Use;

constexpr std::string_view kSteps[] = {"step", "global_step", "_step", "iter", "iteration"};
constexpr std::string_view kLosses[] = {"loss", "train_loss", "train/loss", "training_loss"};

// The text of a file, which may be a pipe and can then be read once.
std::string text_of(const fs::path& file) {
  if (fs::is_directory(file))
    throw Error(PL_ERROR_CONFIG, file.string() + ": is a folder, must be a file of losses");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(PL_ERROR_CONFIG, file.string() + ": cannot be read");
  return rest_of(stream);
}

// A number, null for nothing, or a string.
Json value_of(std::string_view cell) {
  const size_t begin = std::min(cell.find_first_not_of(" \t"), cell.size());
  cell = cell.substr(begin, cell.find_last_not_of(" \t") + 1 - begin);
  if (cell.empty()) return nullptr;
  double number = 0;
  const char* const end = cell.data() + cell.size();
  const auto read = std::from_chars(cell.data() + (cell.starts_with('+') ? 1 : 0), end, number);
  return read.ec == std::errc() && read.ptr == end ? Json(number) : Json(cell);
}

// Calls `use` with each row as an object.
void each_row(const std::string& text, const std::string& name, const Use& use) {
  const std::vector<CsvRow> rows = csv_rows(text);
  for (size_t i = 1; i < rows.size(); ++i) {
    const std::vector<std::string>&names = rows[0].cells, &cells = rows[i].cells;
    if (cells.size() != names.size())
      fail(PL_ERROR_CONFIG, "{}:{}: cells: {}, and the header has {}", name, rows[i].line, cells.size(),
           names.size());
    Json object = Json::object();
    for (size_t cell = 0; cell < cells.size(); ++cell)
      if (!object.emplace(names[cell], value_of(cells[cell])).second && !names[cell].empty())
        fail(PL_ERROR_CONFIG, "{}:{}: the column {} stands there twice", name, rows[0].line, names[cell]);
    use(rows[i].line, object);
  }
}

// The `names` that are among `keys`, in the order of `names`.
std::vector<std::string_view> known(std::span<const std::string_view> names,
                                    const std::vector<std::string>& keys) {
  std::vector<std::string_view> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [&](std::string_view name) { return std::ranges::find(keys, name) != keys.end(); });
  return found;
}

// "train_loss (there is train/loss, too)"
std::string chosen(const std::vector<std::string_view>& found) {
  std::string text(found[0]);
  for (size_t i = 1; i < found.size(); ++i)
    text += fmt::format("{}{}", i == 1 ? " (there is " : ", ", found[i]);
  return text + (found.size() > 1 ? ", too)" : "");
}

struct LeftOut {
  size_t count = 0, first = 0;  // lines

  void add(size_t line) {
    if (count++ == 0) first = line;
  }
};

}  // namespace

LossFile read_losses(const fs::path& file, std::string name) {
  const std::string text = text_of(file);
  const bool is_json =
      text.substr(std::min(text.find_first_not_of("\xef\xbb\xbf \t\r\n"), text.size()), 1) == "{";
  size_t cut_short = 0;
  const auto each = [&](const Use& use) {
    std::istringstream lines(is_json ? text : "");
    if (is_json)
      cut_short = observe::JsonLines::read(lines, file.string(), use);
    else
      each_row(text, file.string(), use);
  };
  std::vector<std::string> keys;
  each([&](size_t, const Json& object) {
    for (const auto& [key, unused] : object.items())
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  });
  const auto steps = known(kSteps, keys), losses = known(kLosses, keys);
  if (steps.empty() || losses.empty())
    fail(PL_ERROR_CONFIG,
         "{}: has no loss by step: needs JSON objects a line, or CSV with a header, with a step ({}) and a "
         "loss ({}); the columns are: {}",
         file.string(), fmt::join(kSteps, ", "), fmt::join(kLosses, ", "),
         keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", ")));

  const std::string loss(losses[0]);
  CurveReader reader(file.string(), std::string(steps[0]), loss);
  LeftOut left_out;
  std::set<uint64_t> read;
  std::vector<std::pair<size_t, Json>> without_number;
  each([&](size_t line, const Json& object) {
    const auto value = object.find(loss);
    if (value == object.end()) return left_out.add(line);
    if (value->is_null()) return without_number.emplace_back(line, object), void();
    reader.add(line, object);
    read.insert(reader.step_of(line, object));
  });
  for (const auto& [line, object] : without_number)
    if (!read.contains(reader.step_of(line, object)))
      reader.add(line, object);
    else
      left_out.add(line);

  LossFile result{.run = {.name = std::move(name), .path = file, .training = reader.take(), .finished = true},
                  .how_read = fmt::format("{}: the step is {}, the loss is {}", file.string(), chosen(steps),
                                          chosen(losses))};
  if (left_out.count > 0)
    result.how_read += fmt::format("; {} line{} without a loss left out, the first is line {}",
                                   left_out.count, left_out.count == 1 ? "" : "s", left_out.first);
  if (cut_short > 0) result.how_read += fmt::format("; line {} is cut short and left out", cut_short);
  auto& figures = result.run.training.figures;
  if (auto found = figures.extract(loss)) {
    found.key() = "loss";
    figures.insert(std::move(found));
  }
  return result;
}

}  // namespace pipeline::report
