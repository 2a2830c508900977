#include "core/train/stages/stages.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/checkpoint/store.hpp"
#include "core/config/config.hpp"
#include "core/train/processes/signals.hpp"
#include "core/train/session/run_folder.hpp"
#include "core/train/session/session.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/stages/found_micro_batch.hpp"
#include "core/train/telemetry/reporter.hpp"
#include "core/train/trainer.hpp"

namespace pipeline::train {
namespace {

// The options that say how long a run is, as a finished run remembers them.
std::string length_of(const config::Config& config) {
  std::string text;
  for (const char* key : {"train.max_steps", "train.max_epochs", "train.max_seconds"})
    if (config.has_value(key)) text += fmt::format("{} = {}\n", key, config.show(key));
  if (config.options().evaluate.patience > 0)
    for (const char* key : {"evaluate.patience", "evaluate.min_delta"})
      text += fmt::format("{} = {}\n", key, config.show(key));
  return text;
}

constexpr std::string_view kWeights = "weights = ";  // a line of what a finished stage remembers
constexpr const char* kOrigin = "origin.txt";        // that line, or those of the model's parts

std::string weights_line(const std::string& text) { return text.starts_with(kWeights) ? text : ""; }

bool has_checkpoints(const RunFolder& folder) {
  const checkpoint::Scan scan = checkpoint::Store({.folder = folder.checkpoints().string()}).scan();
  return !scan.checkpoints.empty() ||
         std::ranges::any_of(scan.rejected, [](const checkpoint::Rejected& entry) {
           return checkpoint::step_of(entry.name) || checkpoint::is_replaced(entry.name);
         });
}

// A run that finished has saved. Without this, one whose checkpoints were taken away would begin anew over
// its records.
void require_checkpoints(const RunFolder& folder) {
  if (folder.finished() && !has_checkpoints(folder))
    fail(PL_ERROR_CONFIG,
         "{}: is a finished run, but its checkpoints are gone from {}: bring them back, or start over with "
         "--fresh",
         folder.path().string(), folder.checkpoints().string());
}

// `then`, `now`: lines that begin with kWeights, or empty: the task's own values.
void warn_if_of_other_origin(const Session& session, const RunFolder& folder, const std::string& then,
                             const std::string& now) {
  const auto name = [](const std::string& line) {
    return line.size() > kWeights.size() ? line.substr(kWeights.size(), line.size() - kWeights.size() - 1)
                                         : std::string();
  };
  if (same_weights(name(then), name(now), session.config().paths_from())) return;
  const auto told = [](const std::string& weights) { return weights.empty() ? "fresh weights" : weights; };
  session.log().warning(fmt::format(
      "{} began from {}, and now that would be {}: train it again with --fresh{}", folder.path().string(),
      told(name(then)), told(name(now)), session.config().has_stages() ? " and --stage" : ""));
}

// True if a finished run of the same options lies in the folder. That it began from weights which have
// changed since is said, not mended: training again is the user's decision.
bool already_finished(const RunFolder& folder, const Session& session, const std::string& weights) {
  const auto finished = folder.finished();
  if (!finished) return false;
  const size_t mark = std::min(finished->find(kWeights), finished->size());
  if (finished->substr(0, mark) != length_of(session.config())) return false;
  const auto stored = folder.read_file("config.toml");
  if (!stored) return false;
  const auto changed = config::require_resumable(*stored, (folder.path() / "config.toml").string(),
                                                 session.config(), session.plugin_configs());
  session.log().info(
      fmt::format("{} is already finished: nothing to do (--fresh starts over; a larger train.max_steps, "
                  "train.max_epochs, train.max_seconds or evaluate.patience, whichever ended it, continues)",
                  folder.path().string()));
  for (const config::Difference& d : changed)
    if (d.named)
      session.log().warning(fmt::format("--change {}={} has no effect: no step is left to do", d.key, d.now));
  if (!has_checkpoints(folder))
    session.log().warning(fmt::format("its checkpoints are gone from {}", folder.checkpoints().string()));
  const std::string then = finished->substr(mark),
                    now = weights.empty() ? "" : fmt::format("{}{}\n", kWeights, checkpoint_of(weights));
  warn_if_of_other_origin(session, folder, then, now);
  return true;
}

// A run that has diverged would do so again.
void require_change(const RunFolder& folder, const Session& session) {
  const auto how = folder.diverged();
  if (!how) return;
  if (const auto stored = folder.read_file("config.toml")) {
    const auto changed = config::differences(*stored, session.config(), session.plugin_configs());
    if (std::ranges::any_of(changed, [](const auto& d) { return !d.may_change || d.named; })) return;
  }
  fail(PL_ERROR_CONFIG, "{}: in an earlier launch {}\n  To do the same once more, remove {}",
       folder.path().string(), *how, (folder.path() / "diverged.txt").string());
}

Outcome stopped_early(const Workspace& workspace) {
  workspace.log.console().status({});
  workspace.log.info("stopped by a signal before the work began");
  workspace.processes.leave_together();
  return Outcome::interrupted;
}

}  // namespace

Outcome train_stage(const Workspace& workspace, RunFolder& folder, const config::Config& stage,
                    const std::string& weights, const OnBegin& on_begin) {
  ProcessGroup& processes = workspace.processes;
  workspace.log.open_files(folder.path(), processes.world().rank);
  if (folder.moved_aside())
    workspace.log.info(fmt::format("the old run was moved aside to {}", folder.moved_aside()->string()));
  const std::optional<config::Config> found = with_found_micro_batch(workspace, folder, stage, weights);
  if (!found) return stopped_early(workspace);
  const std::string finished = processes.on_first("looking at the run folder", [&] {
    if (!folder.finished() && !folder.diverged()) return "no";
    const Session session(
        with_changes(*found, folder.path()), workspace.registry, workspace.log,
        session_args(workspace, PL_PURPOSE_TRAIN, folder.path(), values_of_run(folder.path(), weights)));
    if (already_finished(folder, session, weights)) return "yes";
    require_checkpoints(folder);
    require_change(folder, session);
    return "no";
  });
  if (finished == "yes") return Outcome::finished;
  // A checkpoint brings what was changed before it, which the session is made of.
  Origin origin = find_common_origin(*found, workspace.log, processes, folder, weights);
  const config::Config config = with_changes(
      *found, origin.own() != nullptr ? origin.own()->contents() : changed_before_first(folder.path()),
      &workspace.log);
  std::optional<Signals::Saves> saves;  // from the first step that is done until all is ended
  Session session(config, workspace.registry, workspace.log,
                  session_args(workspace, PL_PURPOSE_TRAIN, folder.path(), values_of(origin)));
  announce_model_options(session);
  std::unique_ptr<Trainer> trainer;
  return guard_work(
      session, [&] { return trainer ? trainer->phase() : std::string("finding the weights"); },
      [&] {
        std::string began_from =
            weights.empty() ? "" : fmt::format("{}{}\n", kWeights, checkpoint_of(weights));
        std::string origins = began_from;
        if (weights.empty())
          for (const std::string& part : origins_of_parts(session)) origins += part + "\n";
        if (const auto then = folder.read_file(kOrigin); origin.own() != nullptr && then) {
          warn_if_of_other_origin(session, folder, weights_line(*then), began_from);
          began_from = weights_line(*then);
          origins = *then;
        }
        if (processes.stopped([&] { session.open_task(origin.checkpoint()); }))
          return stopped_early(workspace);
        require_same_on_all_ranks(session);
        session.create_strategy();
        trainer = std::make_unique<Trainer>(session, folder);
        trainer->start(origin);
        if (processes.is_first()) {
          folder.write_file(kOrigin, origins);
          on_begin();
        }
        origin = {};  // closes the files of a checkpoint that may be removed meanwhile
        const Outcome outcome = trainer->run(saves);
        if (outcome == Outcome::finished && processes.is_first()) {
          folder.mark_finished(length_of(config) + began_from);
          workspace.log.info(fmt::format("done: {}", folder.path().string()));
        }
        return outcome;
      });
}

}  // namespace pipeline::train
