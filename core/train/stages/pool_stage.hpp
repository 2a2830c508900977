// A stage of kind "pool": adds up the evaluations of the stages before it, each of another part of the data,
// to the figures of all their samples together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/config.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/results/evaluation.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/stages/stages.hpp"

namespace pipeline::train {

// Throws ConfigError for a stage of kind "pool" of `whole` that cannot be right, before anything is trained.
void check_pool(const config::Config& whole, const config::Config& stage);

// Adds up, unless the same was added up with these options before. `stage`: of workspace.config.
Outcome pool_stage(const Workspace& workspace, RunFolder& folder, const config::Config& stage,
                   const OnBegin& on_begin);

// A finished evaluation and where it was kept.
struct KeptEvaluation {
  std::string stage;    // that made it
  std::string figures;  // evaluation-SPLIT.json
  Evaluation sums;      // from beside it
};

// Throws Error for one that is damaged or not there.
KeptEvaluation read_evaluation(const std::string& stage, const std::filesystem::path& figures);
// Throws Error unless they may be added up: all whole, of one split, with the same figures, and no part of
// the data in two of them.
void require_poolable(const std::vector<KeptEvaluation>& evaluations);
// What cannot be seen from the evaluations, or spoils figures; for whoever reads these.
std::vector<std::string> doubts_about(const std::vector<KeptEvaluation>& evaluations);
// The sum of at least one. The task's report is asked; the task needs no data for it.
Evaluation pool(plugins::Task& task, const std::vector<KeptEvaluation>& evaluations);

}  // namespace pipeline::train
