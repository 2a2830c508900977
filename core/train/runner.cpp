#include "core/train/runner.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/config/differences.hpp"
#include "core/plugins/error.hpp"
#include "core/train/inference.hpp"
#include "core/train/out_of_memory.hpp"
#include "core/train/run_folder.hpp"
#include "core/train/session.hpp"
#include "core/train/signals.hpp"
#include "core/train/trainer.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// The options that say how long a run is, as a finished run remembers them.
std::string length_of(const config::Config& config) {
  std::string text;
  for (const char* key : {"train.max_steps", "train.max_epochs", "train.max_seconds"})
    if (config.has_value(key)) text += fmt::format("{} = {}\n", key, config.show(key));
  return text;
}

bool is_stage(const config::Config& config, const std::string& name) {
  const auto names = config.stage_names();
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

// True if a finished run of the same options lies in the folder.
bool already_finished(const RunFolder& folder, const Session& session) {
  if (folder.finished() != length_of(session.config())) return false;
  const auto stored = folder.read_file("config.toml");
  if (!stored) return false;
  config::require_resumable(*stored, (folder.path() / "config.toml").string(), session.config(), session.plugin_configs());
  return true;
}

Outcome train_stage(const Workspace& workspace, RunFolder& folder, const config::Config& config, const std::string& weights) {
  workspace.log.open_files(folder.path(), 0);
  if (folder.moved_aside())
    workspace.log.info(fmt::format("the older run was moved aside to {}", folder.moved_aside()->string()));
  Session session(config, workspace.registry, workspace.log,
                  {.purpose = PL_PURPOSE_TRAIN, .run_dir = folder.path(), .cancelled = [] { return Signals::received() != 0; }});
  if (already_finished(folder, session)) {
    workspace.log.info(fmt::format("{} is finished already: nothing to do (--fresh starts over, a larger train.max_steps goes on)",
                                   folder.path().string()));
    return Outcome::finished;
  }
  std::string phase = "preparing data";
  std::unique_ptr<Trainer> trainer;
  const auto out_of_memory = [&](const std::string& what) -> Error {
    return explain_out_of_memory(session, trainer ? trainer->phase() : phase, what);
  };
  try {
    session.open_task();
    phase = "creating the model";
    session.create_strategy();
    trainer = std::make_unique<Trainer>(session, folder);
    trainer->start(weights);
    const Outcome outcome = trainer->run();
    if (outcome == Outcome::finished) {
      folder.mark_finished(length_of(config));
      workspace.log.info(fmt::format("done: {}", folder.path().string()));
    }
    return outcome;
  } catch (const std::bad_alloc& error) {
    throw out_of_memory(error.what());
  } catch (const Error& error) {
    if (error.code() == PL_ERROR_OUT_OF_MEMORY) throw out_of_memory(error.what());
    if (error.code() == PL_ERROR_CANCELLED && Signals::received() != 0) {
      workspace.log.info(fmt::format("{}: stopped while {}", Signals::name(Signals::received()), phase));
      return Outcome::interrupted;
    }
    throw;
  }
}

}  // namespace

fs::path run_dir(const config::Config& config) {
  if (const auto dir = config.find_path("run.dir"); dir && !dir->empty()) {
    const fs::path relative = fs::path(*dir).lexically_relative(fs::current_path());  // shorter to read, where it is below
    return relative.empty() || *relative.begin() == ".." ? fs::path(*dir) : relative;
  }
  const auto name = config.find_string("run.name");
  return fs::path("runs") / (name && !name->empty() ? *name : fs::path(config.file()).stem().string());
}

Outcome run_stages(const Workspace& workspace, bool fresh) {
  const config::Config& config = workspace.config;
  const fs::path base = run_dir(config);
  if (!config.has_stages()) {
    RunFolder folder(base, fresh);
    return train_stage(workspace, folder, config, init_from(config, config));
  }
  const bool one_stage = config.stage_names().size() == 1;
  const RunFolder all(base, fresh && !one_stage);
  for (const std::string& name : config.stage_names()) {
    const config::Config stage = config.for_stage(name);
    const std::string kind = stage.get_string("stage.kind");
    workspace.log.info(fmt::format("stage {} ({})", name, kind));
    RunFolder folder(base / name, fresh && one_stage);
    const std::string weights = init_from(config, stage);
    Outcome outcome = Outcome::finished;
    if (kind == "train") {
      outcome = train_stage(workspace, folder, stage, weights);
    } else if (folder.finished()) {
      workspace.log.info(fmt::format("{} is finished already", folder.path().string()));
    } else {
      if (weights.empty())
        throw stage.error("stage.init_from", fmt::format("stage '{}' needs weights: name the stage, run or checkpoint to take them from", name));
      const InferenceArgs args{.checkpoint = weights, .split = {}, .folder = folder.path(), .output = {}};
      outcome = kind == "evaluate"  ? evaluate_checkpoint(stage, workspace, args)
                : kind == "predict" ? predict_with_checkpoint(stage, workspace, args)
                                    : export_checkpoint(stage, workspace, args);
      if (outcome == Outcome::finished) folder.mark_finished(kind + "\n");
    }
    if (outcome == Outcome::interrupted) return outcome;
  }
  return Outcome::finished;
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
          .output = args.output};
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
