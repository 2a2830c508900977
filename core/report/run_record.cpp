#include "core/report/run_record.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/config/config.hpp"

namespace pipeline::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kSteps[] = {"step", "global_step", "_step", "iter", "iteration"};
constexpr std::string_view kLosses[] = {"loss", "train_loss", "train/loss", "training_loss"};

std::ifstream open(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw Error(PL_ERROR_CONFIG, path.string() + ": cannot be read");
  return stream;
}

std::string text_of(const fs::path& path) {
  std::ifstream stream = open(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// One line's figures, after those before it.
void append(Curve& curve, uint64_t step, const std::vector<std::pair<std::string, double>>& figures) {
  const size_t row = curve.steps.size();
  curve.steps.push_back(step);
  for (const auto& [name, value] : figures) {
    std::vector<double>& column = curve.figures[name];
    column.resize(row, kNone);
    column.push_back(value);
  }
  for (auto& [name, column] : curve.figures) column.resize(row + 1, kNone);
}

// Lines that are cut short by a kill, or repeated by other programs that began again, do not count.
Curve read_json_lines(const fs::path& path, std::span<const std::string_view> step_names) {
  Curve curve;
  std::ifstream stream = open(path);
  std::string line;
  while (std::getline(stream, line)) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    std::optional<uint64_t> step;
    std::vector<std::pair<std::string, double>> figures;
    for (const auto& [key, value] : json.items()) {
      if (!step && std::ranges::find(step_names, key) != step_names.end() && value.is_number())
        step = value.get<uint64_t>();
      else if (value.is_number())
        figures.emplace_back(key, value.get<double>());
      else if (value.is_null())
        figures.emplace_back(key, kNone);
    }
    if (!step || (!curve.steps.empty() && *step <= curve.steps.back())) continue;
    append(curve, *step, figures);
  }
  return curve;
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else if (c != '\r')
      cells.back() += c;
  }
  return cells;
}

double number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() || *end != '\0' ? kNone : value;
}

Curve read_csv(const fs::path& path) {
  Curve curve;
  std::ifstream stream = open(path);
  std::string line;
  if (!std::getline(stream, line)) return curve;
  if (line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
  const std::vector<std::string> names = split(line);
  const auto is_step = [](const std::string& name) {
    return std::ranges::find(kSteps, name) != std::end(kSteps);
  };
  const auto step_column = std::ranges::find_if(names, is_step) - names.begin();
  while (std::getline(stream, line)) {
    const std::vector<std::string> cells = split(line);
    if (cells.size() != names.size()) continue;
    std::vector<std::pair<std::string, double>> figures;
    for (size_t i = 0; i < cells.size(); ++i)
      if (!is_step(names[i])) figures.emplace_back(names[i], number(cells[i]));
    const auto at = static_cast<size_t>(step_column);
    const double step = at < cells.size() ? number(cells[at]) : static_cast<double>(curve.steps.size() + 1);
    if (!(step >= 0) || (!curve.steps.empty() && static_cast<uint64_t>(step) <= curve.steps.back())) continue;
    append(curve, static_cast<uint64_t>(step), figures);
  }
  return curve;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

const std::vector<double>* Curve::find(const std::string& name) const {
  const auto found = figures.find(name);
  return found == figures.end() ? nullptr : &found->second;
}

double RunRecord::throughput() const {
  const std::vector<double>*seconds = training.find("seconds"), *tokens = training.find("tokens"),
        *samples = training.find("samples");
  if (seconds == nullptr) return 0;
  const std::vector<double>* const done = tokens != nullptr && median(*tokens) > 0 ? tokens : samples;
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

RunRecord read_run(const fs::path& folder, std::string name) {
  if (!fs::exists(folder / "metrics.jsonl"))
    throw Error(PL_ERROR_CONFIG, folder.string() + ": is no run: it has no metrics.jsonl");
  RunRecord run{.name = std::move(name),
                .path = folder,
                .training = {},
                .evaluations = {},
                .options = {},
                .summary = {}};
  constexpr std::string_view kStep[] = {"step"};
  run.training = read_json_lines(folder / "metrics.jsonl", kStep);
  if (fs::exists(folder / "eval.jsonl")) run.evaluations = read_json_lines(folder / "eval.jsonl", kStep);
  run.finished = fs::exists(folder / "finished.txt");
  if (fs::exists(folder / "config.toml"))
    run.options = config::stored_values(text_of(folder / "config.toml"));
  if (fs::exists(folder / "summary.json"))
    run.summary = Json::parse(text_of(folder / "summary.json"), nullptr, false);
  if (!run.summary.is_object()) run.summary = nullptr;
  return run;
}

std::vector<fs::path> run_folders(const fs::path& folder) {
  if (fs::exists(folder / "metrics.jsonl")) return {folder};
  std::vector<fs::path> stages;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (fs::exists(entry.path() / "metrics.jsonl")) stages.push_back(entry.path());
  if (stages.empty())
    throw Error(PL_ERROR_CONFIG,
                folder.string() + (fs::exists(folder) ? ": is no run: neither it nor a folder in "
                                                        "it has a metrics.jsonl"
                                                      : ": there is no such file or folder"));
  const auto began = [](const fs::path& stage) { return fs::last_write_time(stage / "config.toml"); };
  std::ranges::sort(stages, {}, began);
  return stages;
}

RunRecord read_losses(const fs::path& file, std::string name) {
  RunRecord run{
      .name = std::move(name), .path = file, .training = {}, .evaluations = {}, .options = {}, .summary = {}};
  run.finished = true;
  run.training = file.extension() == ".csv" ? read_csv(file) : read_json_lines(file, kSteps);
  for (const std::string_view theirs : kLosses) {
    const auto found = run.training.figures.find(std::string(theirs));
    if (found == run.training.figures.end()) continue;
    std::vector<double> loss = std::move(found->second);
    run.training.figures.erase(found);
    run.training.figures["loss"] = std::move(loss);
    return run;
  }
  std::vector<std::string> names;
  for (const auto& [key, unused] : run.training.figures) names.push_back(key);
  throw Error(
      PL_ERROR_CONFIG,
      fmt::format("{}: has no loss by step: needs JSON objects a line, or CSV with a header, with a step "
                  "({}) and a loss ({}); the columns are: {}",
                  file.string(), fmt::join(kSteps, ", "), fmt::join(kLosses, ", "),
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

}  // namespace pipeline::report
