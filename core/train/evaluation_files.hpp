// What is kept of an evaluation: its figures, what the task adds to them, and the sums, so that evaluations can be added up.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/observe/log.hpp"
#include "core/train/evaluation.hpp"
#include "core/train/result_file.hpp"

namespace pipeline::train {

// To the log, and, where there is an output (rank 0), to the file: `origin` says what was evaluated. The sums and the files of the task's
// report go to a folder beside it.
void tell_and_keep(nlohmann::ordered_json origin, uint32_t split, const Evaluation& evaluation, observe::Log& log, std::optional<ResultFile>& output);

// The sums of a finished evaluation, and where they were kept.
struct KeptEvaluation {
  std::string path;
  uint32_t split = PL_SPLIT_TEST;
  uint64_t samples = 0;
  std::vector<MetricSum> values;
};

// Those of the files evaluation-SPLIT.json, as one text that can go to other ranks. Throws Error for one that is missing or of another split.
std::string read_evaluations(const std::vector<std::filesystem::path>& files);
std::vector<KeptEvaluation> parse_evaluations(const std::string& text);

// The evaluation of all their samples together.
Evaluation pool(plugins::Task& task, const std::vector<KeptEvaluation>& evaluations);

}  // namespace pipeline::train
