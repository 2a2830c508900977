#include "core/train/results/evaluation_files.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/checkpoint/file_system.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/json/strict_json.hpp"
#include "core/observe/json_lines.hpp"
#include "core/safetensors/crc32c.hpp"
#include "core/train/results/result_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// JSON has no numbers that are not finite: they go as text.
json from_double(double value) { return std::isfinite(value) ? json(value) : json(fmt::format("{}", value)); }

double to_double(const json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

constexpr const char* kChecksum = "crc32c";  // of all the rest

std::string checksum_of(const json& sums) {
  const std::string text = sums.dump();
  return checkpoint::hex(safetensors::crc32c(0, std::as_bytes(std::span(text))));
}

// The files that the evaluation before has put there; none where it cannot be told.
std::vector<std::string> files_of_earlier(const fs::path& sums) {
  std::vector<std::string> names;
  try {
    if (fs::exists(sums))
      for (ReportFile& file : read_sums(sums, "").files) names.push_back(std::move(file.name));
  } catch (const Error&) {
  }
  return names;
}

// The folder goes when the next evaluation is written, and with it nothing that somebody else may miss.
void require_own(const fs::path& folder, std::string_view remedy) {
  if (!fs::exists(folder)) return;
  const std::vector<std::string> ours = files_of_earlier(folder / plugins::kSumsFile);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name != plugins::kSumsFile && std::ranges::find(ours, name) == ours.end())
      throw Error(PL_ERROR_CONFIG, fmt::format("{}: is not of the evaluation that is kept in this folder, "
                                               "which the next one replaces: move it away, or {}",
                                               entry.path().string(), remedy));
  }
}

}  // namespace

EvaluationFiles::EvaluationFiles(fs::path output, const std::string& remedy)
    : remedy_(remedy),
      folder_(side_files_of(output)),
      lock_(output, folder_, remedy),
      figures_(std::move(output), remedy) {
  on_disk(remedy_, [&] { require_own(folder_, remedy_); });
}

void EvaluationFiles::write(const std::string& figures, const Evaluation& evaluation) {
  const fs::path next = folder_.string() + ".tmp";
  const auto add = [&](std::string_view name, const std::string& bytes) {
    write_side_file(next, name, std::as_bytes(std::span(bytes)));
  };
  on_disk(remedy_, [&] {
    fs::remove_all(next);  // of a process that was killed
    for (const ReportFile& file : evaluation.files) add(file.name, file.bytes);
    add(plugins::kSumsFile, sums_text(evaluation));
    fs::remove_all(folder_);
    figures_.write(figures);
    fs::rename(next, folder_);
  });
}

std::string sums_text(const Evaluation& evaluation) {
  json metrics = json::array(), values = json::array(), files = json::array();
  for (const plugins::Metric& metric : evaluation.metrics)
    metrics.push_back(json::array({metric.name, metric.source, metric.aggregate, metric.better}));
  for (const plugins::EvaluationValue& value : evaluation.sums)
    values.push_back(
        json::array({value.group, value.name, from_double(value.sum), from_double(value.weight)}));
  for (const ReportFile& file : evaluation.files) files.push_back(file.name);
  json all{{"split", evaluation.split},
           {"samples", evaluation.samples},
           {"of", evaluation.available},
           {"metrics", metrics},
           {"values", values},
           {"files", files},
           {"records", evaluation.records}};
  try {
    all[kChecksum] = checksum_of(all);
    return all.dump();
  } catch (const json::type_error& error) {
    throw Error(fmt::format("the names of an evaluation's values, metrics and files must be UTF-8: {}",
                            error.what()));
  }
}

Evaluation read_sums(const fs::path& file, std::string_view remedy) {
  json all;
  try {
    all = strict_json::parse(checkpoint::read_text(file.string()), file.string());
    const json written = all.is_object() ? all.value(kChecksum, json()) : json();
    if (all.is_object()) all.erase(kChecksum);
    if (written != checksum_of(all))
      throw Error(PL_ERROR_CORRUPT, file.string() + ": is not what the evaluation wrote");
  } catch (const strict_json::Error& error) {
    throw Error(PL_ERROR_CORRUPT, fmt::format("{}: {}", error.what(), remedy));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", error.what(), remedy));
  }
  Evaluation sums;
  sums.split = all["split"];
  sums.samples = all["samples"];
  sums.available = all["of"];
  sums.records = all["records"];
  for (const json& metric : all["metrics"])
    sums.metrics.push_back(
        {.name = metric[0], .source = metric[1], .aggregate = metric[2], .better = metric[3]});
  for (const json& value : all["values"])
    sums.sums.push_back({value[0], value[1], to_double(value[2]), to_double(value[3])});
  for (const json& name : all["files"]) sums.files.push_back({name, {}});
  return sums;
}

void tell_and_keep(nlohmann::ordered_json json, const Evaluation& evaluation, observe::Log& log,
                   std::optional<EvaluationFiles>& output) {
  json["split"] = split_name(evaluation.split);
  json["samples"] = evaluation.samples;
  json["seconds"] = evaluation.seconds;
  for (const Figure& figure : evaluation.figures) {
    json["figures"][figure.name] = observe::json_of(figure.value);
    log.info(fmt::format("  {:<24} {:.4f}", figure.name, figure.value));
  }
  for (const std::string& lines : evaluation.text) log.info(lines);
  if (!output) return;
  output->write(json.dump(2) + "\n", evaluation);
  std::vector<std::string_view> names;
  for (const ReportFile& file : evaluation.files) names.push_back(file.name);
  log.info(fmt::format(
      "written to {}{}", output->output().string(),
      names.empty() ? "" : fmt::format("; {} in {}", fmt::join(names, ", "), output->folder().string())));
}

}  // namespace pipeline::train
