#include "core/train/runner.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "core/checkpoint/hex.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/store.hpp"
#include "core/config/differences.hpp"
#include "core/plugins/error.hpp"
#include "core/safetensors/crc32c.hpp"
#include "core/train/failure.hpp"
#include "core/train/inference.hpp"
#include "core/train/pool_stage.hpp"
#include "core/train/rank_check.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/session.hpp"
#include "core/train/signals.hpp"
#include "core/train/trainer.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// A name to which a suffix can be added.
fs::path without_trailing_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() || normal == normal.root_path() ? normal : normal.parent_path();
}

// The options that say how long a run is, as a finished run remembers them.
std::string length_of(const config::Config& config) {
  std::string text;
  for (const char* key : {"train.max_steps", "train.max_epochs", "train.max_seconds"})
    if (config.has_value(key)) text += fmt::format("{} = {}\n", key, config.show(key));
  return text;
}

bool is_stage(const config::Config& config, const std::string& name) {
  const auto names = config.all_stage_names();
  return config.has_stages() && std::find(names.begin(), names.end(), name) != names.end();
}

// Where the weights of `stage` come from: the folder of a stage, a path as the user wrote it, or nothing.
std::string init_from(const config::Config& whole, const config::Config& stage) {
  for (const char* key : {"stage.init_from", "train.init_from"}) {
    const auto value = stage.find_string(key);
    if (!value || value->empty()) continue;
    return std::string_view(key) == "stage.init_from" || is_stage(whole, *value) ? (run_dir(whole) / *value).string() : *value;
  }
  return {};
}

// The checkpoint that `weights` means at the moment, and which one of that name; `weights` itself where it is none of ours.
std::string checkpoint_of(const std::string& weights) {
  const fs::path nested = fs::path(weights) / "checkpoints";
  const checkpoint::Store store({.folder = fs::exists(nested) ? nested.string() : weights});
  std::string path = weights;
  if (const auto best = store.best())
    path = best->path;
  else if (const checkpoint::Scan scan = store.scan(); !scan.checkpoints.empty())
    path = scan.checkpoints.front().path;
  std::ifstream manifest(fs::path(path) / checkpoint::kManifestName, std::ios::binary);
  if (!manifest) return path;
  const std::string text(std::istreambuf_iterator<char>(manifest), {});
  return fmt::format("{} (manifest {})", path, checkpoint::hex(safetensors::crc32c(0, std::as_bytes(std::span(text)))));
}

constexpr std::string_view kWeights = "weights = ";  // a line of what a finished stage remembers
constexpr const char* kOrigin = "origin.txt";        // that line, from the beginning of training on

bool has_checkpoints(const RunFolder& folder) {
  const checkpoint::Scan scan = checkpoint::Store({.folder = folder.checkpoints().string()}).scan();
  return !scan.checkpoints.empty() || std::ranges::any_of(scan.rejected, [](const checkpoint::Rejected& entry) {
    return checkpoint::step_of(entry.name) || entry.name.starts_with(".old-step-");
  });
}

// A run that finished has saved. Without this, one whose checkpoints were taken away would begin anew over its records.
void require_checkpoints(const RunFolder& folder) {
  if (folder.finished() && !has_checkpoints(folder))
    throw Error(PL_ERROR_CONFIG, fmt::format("{}: is a finished run, but its checkpoints are gone from {}: bring them back, or start over with --fresh",
                                             folder.path().string(), folder.checkpoints().string()));
}

// `then`, `now`: lines that begin with kWeights, or empty: the task's own values.
void warn_of_other_origin(const Session& session, const RunFolder& folder, std::string_view then, std::string_view now) {
  const auto name = [](std::string_view line) {
    return line.size() > kWeights.size() ? line.substr(kWeights.size(), line.size() - kWeights.size() - 1) : "fresh weights";
  };
  session.log().warning(fmt::format("{} began from {}, and now that would be {}: train it again with --fresh{}", folder.path().string(), name(then),
                                    name(now), session.config().has_stages() ? " and --stage" : ""));
}

// True if a finished run of the same options lies in the folder. That it began from weights which have changed since is said, not mended:
// training again is the user's decision.
bool already_finished(const RunFolder& folder, const Session& session, const std::string& weights) {
  const auto finished = folder.finished();
  if (!finished) return false;
  const size_t mark = std::min(finished->find(kWeights), finished->size());
  if (finished->substr(0, mark) != length_of(session.config())) return false;
  const auto stored = folder.read_file("config.toml");
  if (!stored) return false;
  config::require_resumable(*stored, (folder.path() / "config.toml").string(), session.config(), session.plugin_configs());
  session.log().info(fmt::format("{} is finished already: nothing to do (--fresh starts over, a larger train.max_steps goes on)",
                                 folder.path().string()));
  if (!has_checkpoints(folder)) session.log().warning(fmt::format("its checkpoints are gone from {}", folder.checkpoints().string()));
  const std::string then = finished->substr(mark), now = weights.empty() ? "" : fmt::format("{}{}\n", kWeights, checkpoint_of(weights));
  if (then != now) warn_of_other_origin(session, folder, then, now);
  return true;
}

Outcome stopped_early(const Workspace& workspace) {
  workspace.log.console().status({});
  workspace.log.info("stopped by a signal before the work began");
  workspace.team.leave_together();
  return Outcome::interrupted;
}

// Which checkpoint it is, is for rank 0 to say: another rank might find a newer or another one.
Origin find_common_origin(Session& session, const RunFolder& folder, const std::string& weights) {
  Origin origin;
  const std::string told = session.team().on_first("finding the weights", [&] {
    origin = find_origin(session, folder, weights);
    return origin.to_bytes();
  });
  return session.team().is_first() ? std::move(origin) : Origin::from_bytes(told);
}

Outcome train_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config, const std::string& weights) {
  Team& team = workspace.team;
  workspace.log.open_files(folder.path(), team.world().rank);
  if (folder.moved_aside())
    workspace.log.info(fmt::format("the older run was moved aside to {}", folder.moved_aside()->string()));
  Session session(config, workspace.registry, workspace.log, session_args(workspace, PL_PURPOSE_TRAIN, folder.path()));
  const std::string finished = team.on_first("looking at the run folder", [&] {
    if (already_finished(folder, session, weights)) return "yes";
    require_checkpoints(folder);
    return "no";
  });
  if (finished == "yes") return Outcome::finished;
  std::unique_ptr<Trainer> trainer;
  return guard_work(
      session, [&] { return trainer ? trainer->phase() : std::string("finding the weights"); },
      [&] {
        std::string began_from = weights.empty() ? "" : fmt::format("{}{}\n", kWeights, checkpoint_of(weights));
        Origin origin = find_common_origin(session, folder, weights);
        if (const auto then = folder.read_file(kOrigin); origin.resumed && then) {
          if (*then != began_from) warn_of_other_origin(session, folder, *then, began_from);
          began_from = *then;
        }
        if (team.stopped([&] { session.open_task(origin.checkpoint()); })) return stopped_early(workspace);
        require_same_on_all_ranks(session);
        session.create_strategy();
        trainer = std::make_unique<Trainer>(session, folder);
        trainer->start(origin);
        if (team.is_first()) folder.write_file(kOrigin, began_from);
        origin = {};  // closes the files of a checkpoint that may be removed meanwhile
        const Outcome outcome = trainer->run();
        if (outcome == Outcome::finished && team.is_first()) {
          folder.mark_finished(length_of(config) + began_from);
          workspace.log.info(fmt::format("done: {}", folder.path().string()));
        }
        return outcome;
      });
}

// A stage that evaluates, predicts or exports, unless the same was done with the same weights before.
Outcome use_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config, const std::string& weights) {
  const std::string kind = config.get_string("stage.kind");
  if (weights.empty())
    throw config.error("stage.init_from", fmt::format("stage '{}' needs weights: name the stage, run or checkpoint to take them from",
                                                      config.get_string("stage.name")));
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

// `work` in a folder from which --fresh may have moved an older run aside.
Outcome in_folder(RunFolder& folder, observe::Log& log, const std::function<Outcome()>& work) {
  const auto put_back = [&] {
    try {
      if (folder.put_back_unless_begun())
        log.info(fmt::format("nothing was begun, so the older run is back in {}", folder.path().string()));
    } catch (const std::exception& error) {  // what led here is the error to tell
      log.warning(fmt::format("the older run could not be put back from {}: {}", folder.moved_aside()->string(), error.what()));
    }
  };
  try {
    const Outcome outcome = work();
    if (outcome == Outcome::interrupted) put_back();
    return outcome;
  } catch (...) {
    put_back();
    throw;
  }
}

// --fresh once a launch: what a restarted launch finds of its own goes on.
RunFolder open_own_folder(const launch::World& world, const fs::path& path, bool fresh) {
  if (fresh && world.attempt > 0) {
    std::ifstream in(path / RunFolder::kBegunBy);
    std::string by;
    if (std::getline(in, by) && by == world.run_id) fresh = false;
  }
  RunFolder folder(path, fresh);
  if (fresh && !world.run_id.empty()) folder.write_file(RunFolder::kBegunBy, world.run_id + "\n");
  return folder;
}

// A file that was just made on another host shows up late on some file systems.
bool appears(const fs::path& file) {
  constexpr auto kPatience = std::chrono::seconds(60);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!fs::exists(file)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::error_code ignored;
    for (fs::directory_iterator entry(file.parent_path(), ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return true;
}

// Rank 0 makes and locks the folder; the others must see the very same one.
RunFolder open_folder(const Workspace& workspace, const fs::path& path, bool fresh) {
  Team& team = workspace.team;
  if (team.world().size == 1) return open_own_folder(team.world(), path, fresh);
  std::optional<RunFolder> folder;
  std::string mark;
  try {
    mark = team.on_first("opening the run folder", [&] {
      folder.emplace(open_own_folder(team.world(), path, fresh));
      const std::string name = fmt::format("{}{:08x}", RunFolder::kMarkPrefix, std::random_device()());
      folder->write_file(name, "");
      return name;
    });
    if (!folder && !appears(path / mark))
      throw Error(PL_ERROR_CONFIG, fmt::format("run.dir = {}: is not the folder that rank 0 uses on {}: all hosts must share it, so choose one on a "
                                               "file system that they share",
                                               fs::absolute(path).string(), team.world().address));
    team.peers().barrier("opened the run folder");
  } catch (...) {
    if (folder) {
      fs::remove(path / mark);
      folder->put_back_unless_begun();
    }
    throw;
  }
  if (folder) fs::remove(path / mark);
  return folder ? std::move(*folder) : RunFolder::of_first_rank(path);
}

// A mistake in the last stage shows before the first one trains.
void check_stages(const Workspace& workspace) {
  check_pools(workspace.config);
  for (const std::string& name : workspace.config.stage_names()) {
    const config::Config stage = workspace.config.for_stage(name);
    Session session(stage, workspace.registry, workspace.log, session_args(workspace, purpose_of_stage(stage), {}));
    session.check_task();
  }
}

}  // namespace

SessionArgs session_args(const Workspace& workspace, uint32_t purpose, const fs::path& folder) {
  return {.purpose = purpose,
          .run_dir = folder,
          .cancelled = [] { return Signals::received() != 0; },
          .world = workspace.team.world(),
          .team = &workspace.team};
}

uint32_t purpose_of_stage(const config::Config& stage) {
  const std::string& kind = stage.get_string("stage.kind");
  return kind == "evaluate" || kind == "pool" ? PL_PURPOSE_EVALUATE : kind == "predict" ? PL_PURPOSE_PREDICT : kind == "export" ? PL_PURPOSE_EXPORT : PL_PURPOSE_TRAIN;
}

fs::path run_dir(const config::Config& config) {
  if (const auto given = config.find_path("run.dir"); given && !given->empty()) {
    const fs::path dir = without_trailing_slash(*given);
    const fs::path relative = dir.lexically_relative(fs::current_path());  // shorter to read, where it is below
    return relative.empty() || *relative.begin() == ".." ? dir : relative;
  }
  const auto name = config.find_string("run.name");
  if (name && (*name == "." || *name == ".." || name->find('/') != std::string::npos))
    throw config.error("run.name", "must be a plain name, which the folder below runs/ gets: for a path use run.dir");
  return fs::path("runs") / (name && !name->empty() ? *name : fs::path(config.file()).stem().string());
}

Outcome run_stages(const Workspace& workspace, bool fresh) {
  const config::Config& config = workspace.config;
  const fs::path base = run_dir(config);
  if (!config.has_stages()) {
    RunFolder folder = open_folder(workspace, base, fresh);
    return in_folder(folder, workspace.log, [&] { return train_stage(workspace, folder, config, init_from(config, config)); });
  }
  check_stages(workspace);
  const bool one_stage = config.stage_names().size() == 1;
  RunFolder all = open_folder(workspace, base, fresh && !one_stage);
  if (all.moved_aside()) workspace.log.info(fmt::format("the older run was moved aside to {}", all.moved_aside()->string()));
  return in_folder(all, workspace.log, [&] {
    for (const std::string& name : config.stage_names()) {
      const config::Config stage = config.for_stage(name);
      const std::string kind = stage.get_string("stage.kind");
      workspace.log.info(fmt::format("stage {} ({})", name, kind));
      RunFolder folder = open_folder(workspace, base / name, fresh && one_stage);
      const std::string weights = init_from(config, stage);
      const Outcome outcome = in_folder(folder, workspace.log, [&] {
        if (kind == "train") return train_stage(workspace, folder, stage, weights);
        if (kind == "pool") return pool_stage(workspace, folder, stage);
        return use_stage(workspace, folder, stage, weights);
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
