#include "core/train/runner.hpp"

#include <fmt/format.h>

#include "core/train/inference.hpp"
#include "core/train/inference_stage.hpp"
#include "core/train/pool_stage.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/session.hpp"
#include "core/train/stage_folder.hpp"
#include "core/train/stages.hpp"
#include "core/train/train_stage.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// A mistake shows before a folder is made or moved aside for it, one in the last stage before the first one trains.
void check_everything(const Workspace& workspace) {
  check_stages(workspace.config);
  for (const config::Config& stage : stages_of(workspace.config)) {
    Session session(stage, workspace.registry, workspace.log, session_args(workspace, purpose_of_stage(stage), {}));
    session.check_task();
  }
}

}  // namespace

Outcome run_stages(const Workspace& workspace, bool fresh) {
  const config::Config& config = workspace.config;
  const fs::path base = run_dir(config);
  check_everything(workspace);
  if (!config.has_stages()) {
    RunFolder folder = open_folder(workspace, base, fresh);
    return in_folder(folder, workspace.log, [&] { return train_stage(workspace, folder, config, init_from(config, config)); });
  }
  const bool one_stage = config.stage_names().size() == 1;
  RunFolder all = open_folder(workspace, base, fresh && !one_stage);
  if (all.moved_aside()) workspace.log.info(fmt::format("the older run was moved aside to {}", all.moved_aside()->string()));
  return in_folder(all, workspace.log, [&] {
    for (const config::Config& stage : stages_of(config)) {
      const std::string& name = stage.get_string("stage.name");
      const std::string& kind = stage.get_string("stage.kind");
      workspace.log.info(fmt::format("stage {} ({})", name, kind));
      RunFolder folder = open_folder(workspace, base / name, fresh && one_stage);
      const std::string weights = init_from(config, stage);
      const Outcome outcome = in_folder(folder, workspace.log, [&] {
        if (kind == "train") return train_stage(workspace, folder, stage, weights);
        if (kind == "pool") return pool_stage(workspace, folder, stage);
        return inference_stage(workspace, folder, stage, weights);
      });
      if (outcome == Outcome::interrupted) return outcome;
    }
    return Outcome::finished;
  });
}

namespace {

// The stage whose result a verb works on: the one that --stage names, or the last one that trains.
config::Config trained_stage(const config::Config& config) {
  if (!config.has_stages()) return config;
  const auto names = config.stage_names();
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    if (config::Config stage = config.for_stage(*name); stage.get_string("stage.kind") == "train") return stage;
  throw config.error("stage", "none of the stages trains, so there is no checkpoint");
}

InferenceArgs inference_args(const Workspace& workspace, const config::Config& stage, const VerbArgs& args) {
  fs::path folder = run_dir(workspace.config);
  if (workspace.config.has_stages()) folder /= stage.get_string("stage.name");
  const bool by_name = args.checkpoint == "best" || args.checkpoint == "last";
  return {.checkpoint = by_name ? folder.string() : args.checkpoint,
          .last = args.checkpoint == "last",
          .split = args.split,
          .folder = folder,
          .output = without_trailing_slash(args.output)};
}

}  // namespace

Outcome evaluate_run(const Workspace& workspace, const VerbArgs& args) {
  const config::Config stage = trained_stage(workspace.config);
  return evaluate_checkpoint(stage, workspace, inference_args(workspace, stage, args));
}

Outcome predict_run(const Workspace& workspace, const VerbArgs& args) {
  const config::Config stage = trained_stage(workspace.config);
  return predict_with_checkpoint(stage, workspace, inference_args(workspace, stage, args));
}

Outcome export_run(const Workspace& workspace, const VerbArgs& args) {
  const config::Config stage = trained_stage(workspace.config);
  return export_checkpoint(stage, workspace, inference_args(workspace, stage, args));
}

}  // namespace pipeline::train
