// Runs what a configuration says: its stages in order, or one verb on what an earlier run left.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/config/config.hpp"
#include "core/observe/log.hpp"
#include "core/plugins/registry.hpp"
#include "core/train/outcome.hpp"
#include "core/train/session.hpp"
#include "core/train/team.hpp"

namespace pipeline::train {

struct Workspace {  // what all verbs share
  const config::Config& config;
  plugins::Registry& registry;
  observe::Log& log;
  Team& team;
};

// Trains, evaluates, predicts, exports, adds up: every stage that is not finished yet, or the one that --stage names. `fresh`: older
// results are moved aside first.
Outcome run_stages(const Workspace& workspace, bool fresh);

// Where a run (or a stage of it) lives: run.dir, or runs/NAME.
std::filesystem::path run_dir(const config::Config& config);

// For a session in `folder` that a signal stops.
SessionArgs session_args(const Workspace& workspace, uint32_t purpose, const std::filesystem::path& folder);

// PL_PURPOSE_... of stage.kind.
uint32_t purpose_of_stage(const config::Config& stage);

// A verb on a finished or unfinished run.
struct VerbArgs {
  std::string checkpoint = "best";  // best, last, or a path
  std::string split;                // empty: evaluate.split
  std::filesystem::path output;     // empty: in the run's folder
};

Outcome evaluate_run(const Workspace& workspace, const VerbArgs& args);
Outcome predict_run(const Workspace& workspace, const VerbArgs& args);
Outcome export_run(const Workspace& workspace, const VerbArgs& args);

}  // namespace pipeline::train
