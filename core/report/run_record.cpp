#include "core/report/run_record.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/config/config.hpp"
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

namespace fs = std::filesystem;

bool are_counts(const Json& object, std::initializer_list<const char*> names) {
  return std::ranges::all_of(names, [&](const char* name) {
    return !object.contains(name) || object.at(name).is_number_unsigned();
  });
}

bool is_rank(const Json& rank) {
  if (!rank.is_object() || !rank.contains("seconds") || !rank.at("seconds").is_object()) return false;
  return are_counts(rank, {"host_memory", "device_memory", "driver_memory"}) &&
         std::ranges::all_of(rank.at("seconds"), &Json::is_number) &&
         rank.value("device_utilisation", Json(0)).is_number();
}

bool is_best(const Json& best) {
  return best.is_null() ||
         (best.is_object() && best.value("metric", Json()).is_string() &&
          best.value("value", Json()).is_number() && best.value("step", Json()).is_number_unsigned() &&
          best.value("better", Json()).is_string());
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
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

Curve read_last_steps(const std::filesystem::path& file) {
  constexpr uint64_t kFirst = 2 << 10, kLast = 2 << 20;  // bytes: a dozen lines, where they are not long
  try {
    for (uint64_t bytes = kFirst; bytes <= kLast; bytes *= 32) {
      CurveReader reader(file.string(), "step", "loss");
      observe::JsonLines::read_end(file, bytes,
                                   [&](size_t line, const Json& object) { reader.add(line, object); });
      if (Curve end = reader.take(); !end.steps.empty()) return end;
    }
  } catch (const Error&) {  // which line it is can be said by one who has read them all
  }
  return read_curve(file);
}

nlohmann::ordered_json read_object(const std::filesystem::path& file) {
  try {
    nlohmann::ordered_json object = strict_json::parse_ordered(read_file(file), file.string());
    if (!object.is_object()) throw strict_json::JsonError(file.string() + ": is no JSON object");
    return object;
  } catch (const strict_json::JsonError& error) {
    throw Error(PL_ERROR_CONFIG, error.what());
  }
}

Json read_summary(const fs::path& file) {
  Json summary = read_object(file);
  const Json ranks = summary.value("ranks", Json());
  if (!are_counts(summary, {"steps", "processes"}) || !is_best(summary.value("best", Json())) ||
      (!ranks.is_null() && (!ranks.is_array() || ranks.empty() || !std::ranges::all_of(ranks, is_rank))))
    throw Error(PL_ERROR_CONFIG,
                file.string() +
                    ": is not as a run writes it: move it away, the rest of the run can be read without it");
  return summary;
}

std::string_view RunRecord::throughput_unit() const {
  const std::vector<double>* const tokens = training.find("tokens");
  return tokens != nullptr && median(*tokens) > 0 ? "tokens" : "samples";
}

double RunRecord::throughput() const {
  const std::vector<double>* const seconds = training.find("seconds");
  if (seconds == nullptr) return 0;
  const std::vector<double>* const done = training.find(std::string(throughput_unit()));
  if (done == nullptr) return 0;
  std::vector<double> rates;
  for (size_t i = 0; i < seconds->size(); ++i)
    if ((*seconds)[i] > 0) rates.push_back((*done)[i] / (*seconds)[i]);
  return median(std::move(rates));
}

uint64_t RunRecord::peak_host_memory() const {
  uint64_t most = 0;
  if (summary.contains("ranks"))
    for (const Json& rank : summary.at("ranks"))
      most = std::max(most, rank.value("host_memory", uint64_t{0}));
  return most;
}

uint64_t RunRecord::processes() const {
  return summary.is_object() ? summary.value("processes", uint64_t{0}) : 0;
}

std::optional<RunRecord::Best> RunRecord::best() const {
  const auto found = summary.find("best");
  if (found == summary.end() || !found->is_object()) return std::nullopt;
  return Best{found->at("metric"), found->at("value"), found->at("step"), found->at("better") == "higher"};
}

std::optional<RunRecord::Straggler> RunRecord::straggler() const {
  if (!summary.contains("ranks") || summary.at("ranks").size() < 2) return std::nullopt;
  std::vector<double> work;
  for (const Json& rank : summary.at("ranks")) {
    const Json& seconds = rank.at("seconds");
    work.push_back(seconds.value("data", 0.0) + seconds.value("compute", 0.0) +
                   seconds.value("optimizer", 0.0));
  }
  const auto longest = std::ranges::max_element(work);
  const double mean = std::reduce(work.begin(), work.end()) / static_cast<double>(work.size());
  if (mean <= 0) return std::nullopt;
  return Straggler{static_cast<size_t>(longest - work.begin()), *longest / mean - 1};
}

std::optional<RunRecord::DeviceUse> RunRecord::device_use() const {
  if (!summary.contains("ranks")) return std::nullopt;
  DeviceUse use{.mean = 0, .least = 1, .least_rank = 0, .memory = 0};
  const Json& ranks = summary.at("ranks");
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].contains("device_utilisation")) return std::nullopt;
    const double busy = ranks[rank].at("device_utilisation");
    use.mean += busy / static_cast<double>(ranks.size());
    if (busy < use.least) {
      use.least = busy;
      use.least_rank = rank;
    }
    use.memory = std::max(use.memory, ranks[rank].value("driver_memory", uint64_t{0}));
  }
  return use;
}

std::string RunRecord::Best::checkpoint() const { return fmt::format("checkpoints/step-{:08}", step); }

bool is_prediction(const fs::path& file) {
  return file.extension() == ".csv" && file.filename() != "metrics.csv" && file.filename() != "eval.csv";
}

bool has_results(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename(), kind = entry.path().extension();
    if (name.starts_with("evaluation-") && kind == ".json") return true;
    if (is_prediction(entry.path())) return true;
  }
  return false;
}

bool has_steps(const fs::path& folder) { return is_there(folder / "metrics.jsonl"); }

RunRecord read_run(const fs::path& folder, std::string name) {
  if (!has_steps(folder) && !has_results(folder))
    throw Error(PL_ERROR_CONFIG, folder.string() + ": is no run: it has no metrics.jsonl");
  RunRecord run{.name = std::move(name), .path = folder};
  if (has_steps(folder)) run.training = read_curve(folder / "metrics.jsonl");
  const fs::path evaluations = folder / "eval.jsonl", config = folder / "config.toml",
                 summary = folder / "summary.json";
  if (is_there(evaluations)) run.evaluations = read_curve(evaluations);
  run.finished = is_there(folder / "finished.txt");
  if (is_there(config)) run.options = config::stored_values(read_file(config), config.string());
  if (is_there(summary)) run.summary = read_summary(summary);
  return run;
}

std::vector<fs::path> find_stages(const fs::path& folder) {
  if (has_steps(folder)) return {folder};
  std::vector<std::pair<fs::file_time_type, fs::path>> stages;
  std::error_code error;  // what cannot be looked at has no metrics.jsonl
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!has_steps(entry->path())) continue;
    std::error_code none;
    stages.emplace_back(fs::last_write_time(entry->path() / "config.toml", none), entry->path());
  }
  std::ranges::sort(stages);
  std::vector<fs::path> folders;
  for (auto& [began, stage] : stages) folders.push_back(std::move(stage));
  return folders;
}

std::vector<fs::path> run_folders(const fs::path& folder) {
  std::vector<fs::path> stages = find_stages(folder);
  if (stages.empty())
    throw Error(
        PL_ERROR_CONFIG,
        folder.string() + (is_there(folder) ? ": is no run: neither it nor a folder in it has a metrics.jsonl"
                                            : ": there is no such file or folder"));
  return stages;
}

}  // namespace pipeline::report
