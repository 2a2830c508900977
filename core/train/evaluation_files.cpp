#include "core/train/evaluation_files.hpp"

#include <cmath>
#include <fstream>
#include <iterator>
#include <span>

#include <fmt/format.h>

#include "core/plugins/error.hpp"
#include "core/train/side_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSums = "sums.json";

nlohmann::json sums_of(const Evaluation& evaluation) {
  nlohmann::json values = nlohmann::json::array();
  for (const MetricSum& sum : evaluation.sums) values.push_back(nlohmann::json::array({sum.name, sum.sum, sum.weight}));
  return values;
}

nlohmann::json read_json(const fs::path& file) {
  std::ifstream in(file);
  const auto json = in ? nlohmann::json::parse(in, nullptr, false) : nlohmann::json();
  if (!json.is_object())
    throw Error(PL_ERROR_CONFIG, fmt::format("{}: is not there or cannot be read: the stage that makes it has to run again", file.string()));
  return json;
}

}  // namespace

void tell_and_keep(nlohmann::ordered_json json, uint32_t split, const Evaluation& evaluation, observe::Log& log, std::optional<ResultFile>& output) {
  json["split"] = split_name(split);
  json["samples"] = evaluation.samples;
  json["seconds"] = evaluation.seconds;
  for (const Figure& figure : evaluation.figures) {
    json["figures"][figure.name] = std::isfinite(figure.value) ? nlohmann::ordered_json(figure.value) : nullptr;
    log.info(fmt::format("  {:<24} {:.4f}", figure.name, figure.value));
  }
  for (const std::string& lines : evaluation.text) log.info(lines);
  if (!output) return;
  const fs::path folder = side_files_of(output->path());
  const auto keep = [&](const std::string& name, const std::string& bytes) { write_side_file(folder, name, std::as_bytes(std::span(bytes))); };
  std::string names;
  for (const ReportFile& file : evaluation.files) {
    keep(file.name, file.bytes);
    names += (names.empty() ? "; " : ", ") + file.name;
  }
  keep(kSums, nlohmann::json{{"split", split_name(split)}, {"samples", evaluation.samples}, {"values", sums_of(evaluation)}}.dump());
  output->write(json.dump(2) + "\n");
  log.info(fmt::format("written to {}{}", output->path().string(), names.empty() ? "" : names + " in " + folder.string()));
}

std::string read_evaluations(const std::vector<fs::path>& files) {
  nlohmann::json all = nlohmann::json::array();
  for (const fs::path& file : files) {
    nlohmann::json one = read_json(side_files_of(file) / kSums);
    one["path"] = file.string();
    if (!all.empty() && one["split"] != all[0]["split"])
      throw Error(PL_ERROR_CONFIG, fmt::format("{} is of the split {}, {} of {}: only evaluations of one split are added up", file.string(),
                                               one["split"].get<std::string>(), files[0].string(), all[0]["split"].get<std::string>()));
    all.push_back(std::move(one));
  }
  return all.dump();
}

std::vector<KeptEvaluation> parse_evaluations(const std::string& text) {
  std::vector<KeptEvaluation> evaluations;
  for (const nlohmann::json& one : nlohmann::json::parse(text)) {
    KeptEvaluation& kept = evaluations.emplace_back();
    kept.path = one["path"];
    kept.split = split_code(one["split"].get<std::string>());
    kept.samples = one["samples"];
    for (const nlohmann::json& value : one["values"]) kept.values.push_back({value[0], value[1], value[2]});
  }
  return evaluations;
}

Evaluation pool(plugins::Task& task, const std::vector<KeptEvaluation>& evaluations) {
  EvaluationSums sums;
  uint64_t samples = 0;
  for (const KeptEvaluation& one : evaluations) {
    for (const MetricSum& value : one.values) sums.add(value);
    samples += one.samples;
  }
  Evaluation result = conclude(task, evaluations.front().split, PL_PURPOSE_EVALUATE, sums);
  result.samples = samples;
  return result;
}

}  // namespace pipeline::train
