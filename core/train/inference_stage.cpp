#include "core/train/inference_stage.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "core/train/inference.hpp"
#include "core/train/session.hpp"
#include "core/train/stages.hpp"
#include "core/train/weights.hpp"

namespace pipeline::train {

namespace fs = std::filesystem;

Outcome inference_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config, const std::string& weights) {
  const std::string kind = config.get_string("stage.kind");
  Team& team = workspace.team;
  workspace.log.open_files(folder.path(), team.world().rank);
  const Session options(config, workspace.registry, workspace.log, session_args(workspace, purpose_of_stage(config), folder.path()));
  const std::string what = fmt::format("{} of {}\n{}", kind, checkpoint_of(weights), options.resolved_toml());
  const std::string finished = team.on_first("looking at the run folder", [&] {
    if (const auto before = folder.finished()) {
      if (*before == what) return "yes";
      workspace.log.info(fmt::format("{} was made with other options or weights: done again", folder.path().string()));
      folder.unmark_finished();
    }
    if (kind == "export") fs::remove_all(folder.path() / "export");  // unfinished, or of other weights
    return "no";
  });
  if (finished == "yes") {
    workspace.log.info(fmt::format("{} is finished already", folder.path().string()));
    return Outcome::finished;
  }
  const InferenceArgs args{.checkpoint = weights, .last = false, .split = {}, .folder = folder.path(), .output = {}};
  const Outcome outcome = kind == "evaluate"  ? evaluate_checkpoint(config, workspace, args)
                          : kind == "predict" ? predict_with_checkpoint(config, workspace, args)
                                              : export_checkpoint(config, workspace, args);
  if (outcome == Outcome::finished && team.is_first()) folder.mark_finished(what);
  return outcome;
}

}  // namespace pipeline::train
