// Evaluations of different parts of the data, added up: the figures of all their samples together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/train/results/evaluation.hpp"
#include "core/train/results/kept_sums.hpp"

namespace pipeline::train {

// A finished evaluation and where it was kept.
struct KeptEvaluation {
  std::string stage;              // that made it
  std::filesystem::path figures;  // evaluation-SPLIT.json
  KeptSums sums;                  // from beside it
};

// Throws Error for one that is damaged or not there.
KeptEvaluation read_evaluation(std::string stage, std::filesystem::path figures);

// Throws Error unless they may be added up: all whole, of one split, with the same figures, and no part of
// the data in two of them.
void require_poolable(const std::vector<KeptEvaluation>& evaluations);
// What cannot be seen from them, or spoils figures; for whoever reads these.
std::vector<std::string> doubts_about(const std::vector<KeptEvaluation>& evaluations);

// Of at least one. The task's report is asked; the task needs no data for it.
Evaluation pool(plugins::Task& task, const std::vector<KeptEvaluation>& evaluations);

}  // namespace pipeline::train
