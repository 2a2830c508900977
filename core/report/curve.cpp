#include "core/report/curve.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/json/strict_json.hpp"
#include "core/observe/json_lines.hpp"

namespace pipeline::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kNone = 0x7ff8'0000'0000'4e4f;  // the bits of a NaN that no arithmetic makes

Error line_error(const std::string& file, size_t line, const std::string& problem) {
  return Error(PL_ERROR_CONFIG, fmt::format("{}:{}: {}", file, line, problem));
}

Error value_error(const std::string& file, size_t line, const std::string& name, const Json& value,
                  std::string_view problem) {
  return line_error(file, line, fmt::format("{} = {}: {}", name, strict_json::excerpt(value), problem));
}

std::optional<uint64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  constexpr double kLargest = 1ULL << 53;  // up to which a double has all of them
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (!(number >= 0 && number <= kLargest) || number != std::floor(number)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

}  // namespace

double missing() { return std::bit_cast<double>(kNone); }
bool is_missing(double value) { return std::bit_cast<uint64_t>(value) == kNone; }

const std::vector<double>* Curve::find(const std::string& name) const {
  const auto found = figures.find(name);
  return found == figures.end() ? nullptr : &found->second;
}

uint64_t CurveReader::step_of(size_t line, const Json& object) const {
  const auto found = object.find(step_);
  if (found == object.end()) throw line_error(file_, line, fmt::format("has no {}", step_));
  const auto step = whole_number(*found);
  if (!step) throw value_error(file_, line, step_, *found, "must be a whole number, 0 or more");
  return *step;
}

void CurveReader::add(size_t line, const Json& object) {
  const uint64_t step = step_of(line, object);
  const size_t row = curve_.steps.size();
  curve_.steps.push_back(step);
  lines_.push_back(line);
  for (const auto& [name, value] : object.items()) {
    if (name == step_) continue;
    const std::optional<double> figure = observe::figure_of(value);
    if (!figure && name == loss_) throw value_error(file_, line, name, value, "must be a number");
    if (!figure) continue;
    std::vector<double>& column = curve_.figures[name];
    column.resize(row, missing());
    column.push_back(value.is_null() && name != loss_ ? missing() : *figure);
  }
  for (auto& [name, column] : curve_.figures) column.resize(row + 1, missing());
}

Curve CurveReader::take() {
  if (!std::ranges::is_sorted(curve_.steps)) {
    std::vector<size_t> order(curve_.steps.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t i) { return curve_.steps[i]; });
    const auto sort = [&](auto& column) {
      auto sorted = column;
      std::ranges::transform(order, sorted.begin(), [&](size_t i) { return column[i]; });
      column = std::move(sorted);
    };
    sort(curve_.steps);
    sort(lines_);
    for (auto& [name, column] : curve_.figures) sort(column);
  }
  if (const auto twice = std::ranges::adjacent_find(curve_.steps); twice != curve_.steps.end()) {
    const auto at = static_cast<size_t>(twice - curve_.steps.begin());
    throw line_error(
        file_, lines_[at + 1],
        fmt::format("{} = {}: stands in line {}, too: keep the one that counts", step_, *twice, lines_[at]));
  }
  return std::move(curve_);
}

Curve read_curve(const std::filesystem::path& file) {
  CurveReader reader(file.string(), "step", "loss");
  observe::JsonLines::read(file, [&](size_t line, const Json& object) { reader.add(line, object); });
  return reader.take();
}

}  // namespace pipeline::report
