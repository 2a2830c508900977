#include "core/train/results/evaluation_files.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/train/results/kept_sums.hpp"
#include "core/train/results/result_file.hpp"
#include "core/train/results/side_files.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// The files that the evaluation before has put there; none where it cannot be told.
std::vector<std::string> files_of_earlier(const fs::path& sums) {
  try {
    return fs::exists(sums) ? read_sums(sums, "").files : std::vector<std::string>();
  } catch (const Error&) {
    return {};
  }
}

// The folder goes when the next evaluation is written, and with it nothing that somebody else may miss.
void require_own(const fs::path& folder, std::string_view remedy) {
  if (!fs::exists(folder)) return;
  const std::vector<std::string> ours = files_of_earlier(folder / plugins::kSumsFile);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name != plugins::kSumsFile && std::ranges::find(ours, name) == ours.end())
      throw Error(
          PL_ERROR_CONFIG,
          fmt::format(
              "{}: is not of the evaluation that is kept in this folder, which the next one replaces: "
              "move it away, or {}",
              entry.path().string(), remedy));
  }
}

}  // namespace

EvaluationFiles::EvaluationFiles(fs::path output, const std::string& remedy)
    : remedy_(remedy), folder_(side_files_of(output)), figures_(std::move(output), remedy) {
  on_disk(remedy_, [&] { require_own(folder_, remedy_); });
}

void EvaluationFiles::write(const std::string& figures, uint32_t split, const Evaluation& evaluation) {
  const fs::path next = folder_.string() + ".tmp";
  const auto add = [&](std::string_view name, const std::string& bytes) {
    write_side_file(next, name, std::as_bytes(std::span(bytes)));
  };
  on_disk(remedy_, [&] {
    fs::remove_all(next);  // of a process that was killed
    for (const ReportFile& file : evaluation.files) add(file.name, file.bytes);
    add(plugins::kSumsFile, to_text(KeptSums::of(evaluation, split)));
    fs::remove_all(folder_);
    figures_.write(figures);
    fs::rename(next, folder_);
  });
}

void tell_and_keep(nlohmann::ordered_json json, uint32_t split, const Evaluation& evaluation,
                   observe::Log& log, std::optional<EvaluationFiles>& output) {
  json["split"] = split_name(split);
  json["samples"] = evaluation.samples;
  json["seconds"] = evaluation.seconds;
  for (const Figure& figure : evaluation.figures) {
    json["figures"][figure.name] =
        std::isfinite(figure.value) ? nlohmann::ordered_json(figure.value) : nullptr;
    log.info(fmt::format("  {:<24} {:.4f}", figure.name, figure.value));
  }
  for (const std::string& lines : evaluation.text) log.info(lines);
  if (!output) return;
  output->write(json.dump(2) + "\n", split, evaluation);
  std::vector<std::string_view> names;
  for (const ReportFile& file : evaluation.files) names.push_back(file.name);
  log.info(fmt::format(
      "written to {}{}", output->output().string(),
      names.empty() ? "" : fmt::format("; {} in {}", fmt::join(names, ", "), output->folder().string())));
}

}  // namespace pipeline::train
