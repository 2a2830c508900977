#include "core/train/stages/stages.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/checkpoint/checkpoint.hpp"
#include "core/config/option.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/stages/inference.hpp"
#include "pipeline.h"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

bool is_stage(const config::Config& config, const std::string& name) {
  const auto names = config.all_stage_names();
  return config.has_stages() && std::find(names.begin(), names.end(), name) != names.end();
}

fs::path folder_of(const config::Config& whole, const config::Config& stage) {
  return whole.has_stages() ? run_dir(whole) / stage.options().stage.name : run_dir(whole);
}

// What the file system at `path` takes as a name; it need not be there.
size_t longest_name_at(fs::path path) {
  long limit = ::pathconf(path.c_str(), _PC_NAME_MAX);
  for (; limit < 0 && path.has_relative_path(); limit = ::pathconf(path.c_str(), _PC_NAME_MAX))
    path = path.parent_path();
  return limit < 0 ? NAME_MAX : static_cast<size_t>(limit);
}

// A name that is too long shows before anything is trained. The longest that are made of a run's folder are
// that of its secret, .NAME.HASH.secret.RANDOM, beside it, and the paths of its checkpoints.
fs::path with_room_for_names(const config::Config& config, const char* key, fs::path dir) {
  constexpr size_t kBeside = 42, kInside = 160;
  const fs::path whole = fs::absolute(dir);
  const size_t longest = longest_name_at(whole), name = whole.filename().native().size();
  for (const fs::path& part : whole.parent_path())
    if (const size_t size = part.native().size(); size > longest)
      throw config.error(key,
                         fmt::format("a folder's name has {} bytes: must have at most {}", size, longest));
  if (name + kBeside > longest)
    throw config.error(key, fmt::format("its name has {} bytes: must have at most {}, since files beside a "
                                        "run's folder are named after it, and the file system takes {}",
                                        name, longest - kBeside, longest));
  if (const size_t size = whole.native().size(); size + kInside > PATH_MAX)
    throw config.error(key, fmt::format("the path has {} bytes: must have at most {}, since files in it have "
                                        "longer ones, and the system takes {}",
                                        size, PATH_MAX - kInside, PATH_MAX));
  return dir;
}

// --fresh once a launch: what a restarted launch finds of its own goes on.
RunFolder open_own_folder(const World& world, const fs::path& path, bool fresh) {
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
    for (fs::directory_iterator entry(file.parent_path(), ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return true;
}

// Rank 0 makes and locks the folder; the others must see the very same one. `fresh`: an older run in it is
// moved aside, once a launch.
RunFolder open_folder(const Workspace& workspace, const fs::path& path, bool fresh) {
  ProcessGroup& processes = workspace.processes;
  if (processes.world().size == 1) return open_own_folder(processes.world(), path, fresh);
  std::optional<RunFolder> folder;
  std::string mark;
  try {
    mark = processes.on_first("opening the run folder", [&] {
      folder.emplace(open_own_folder(processes.world(), path, fresh));
      std::string name = fmt::format("{}{:08x}", RunFolder::kMarkPrefix, std::random_device()());
      folder->write_file(name, "");
      return name;
    });
    if (!folder && !appears(path / mark))
      fail(PL_ERROR_CONFIG,
           "run.dir = {}: is not the folder that rank 0 uses on {}: all hosts must share it, so choose one "
           "on a file system that they share",
           fs::absolute(path).string(), processes.world().address);
    processes.peers().barrier("opened the run folder");
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

// Does `work` in a folder from which `fresh` may have moved an older run aside: it comes back where nothing
// was begun.
Outcome in_folder(RunFolder& folder, observe::Log& log, const std::function<Outcome()>& work) {
  const auto put_back = [&] {
    try {
      if (folder.put_back_unless_begun())
        log.info(fmt::format("nothing was started, so the old run is back in {}", folder.path().string()));
    } catch (const std::exception& error) {  // what led here is the error to tell
      log.warning(fmt::format("the old run could not be moved back from {}: {}",
                              folder.moved_aside()->string(), error.what()));
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

// A mistake shows before a folder is made or moved aside for it, one in the last stage before the first one
// trains.
void check_everything(const Workspace& workspace, bool fresh) {
  check_stages(workspace.config);
  const observe::Elapsed elapsed(workspace.log.console(), "loading the plugins");
  ValueSources sources(workspace.config, fresh);
  for (const config::Config& stage : stages_of(workspace.config)) {
    const ValueSource source = sources.of(stage);
    Session session(source.goes_on ? with_changes(stage, folder_of(workspace.config, stage)) : stage,
                    workspace.registry, workspace.log,
                    session_args(workspace, purpose_of_stage(stage), {}, source));
    // What a finished stage needed may be gone since.
    const bool is_done = !fresh && RunFolder::finished_in(folder_of(workspace.config, stage));
    if (!is_done && !reads_of_stage_before(workspace.config, session)) session.check_task();
    if (source.goes_on)
      config::require_resumable(checkpoint::read_manifest(source.from).contents.config_toml, source.from,
                                session.config(), session.plugin_configs());
    sources.add_planned(session);
  }
}

// The stage whose result a verb works on: the one that --stage names, or the last one that trains.
config::Config trained_stage(const config::Config& config) {
  if (!config.has_stages()) return config;
  const auto names = config.stage_names();
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    if (config::Config stage = config.for_stage(*name); stage.options().stage.kind == "train") return stage;
  throw config.error("stage", "none of the stages trains, so there is no checkpoint");
}

// Where verbs that use a run's weights put their results: its folder, or that of the stage that has trained.
fs::path result_folder(const config::Config& config) {
  return config.has_stages() ? run_dir(config) / trained_stage(config).options().stage.name : run_dir(config);
}

InferenceArgs inference_args(const Workspace& workspace, const VerbArgs& args) {
  const fs::path folder = result_folder(workspace.config);
  const bool by_name = args.checkpoint == "best" || args.checkpoint == "last";
  return {.checkpoint = by_name ? folder.string() : config::absolute_path(args.checkpoint),
          .last = args.checkpoint == "last",
          .average = args.average,
          .ema = args.ema,
          .split = args.split,
          .samples = args.samples,
          .folder = folder,
          .output = !args.output.empty() ? without_trailing_slash(from_start(args.output))
                    : args.asked         ? folder / "asked.csv"
                    : args.samples > 0   ? folder / "samples.csv"
                                         : fs::path()};
}

}  // namespace

std::string init_from(const config::Config& whole, const config::Config& stage) {
  const std::string &before = stage.options().stage.init_from, &weights = stage.options().train.init_from;
  if (!before.empty()) return (run_dir(whole) / before).string();
  if (is_stage(whole, weights)) return (run_dir(whole) / weights).string();
  return config::absolute_path(weights, stage.origin("train.init_from").base);
}

ValueSource ValueSources::of(const config::Config& stage) const {
  const std::string& kind = stage.options().stage.kind;
  if (kind == "pool") {  // of evaluations of one model
    for (const std::string& name : whole_.all_stage_names())
      if (const config::Config other = whole_.for_stage(name); other.options().stage.kind == "evaluate")
        return of(other);
    return {};
  }
  const std::string weights = init_from(whole_, stage);
  ValueSource source;
  if (kind == "train") source = values_of_run(fresh_ ? fs::path() : folder_of(whole_, stage), "");
  if (source.is_own || weights.empty()) return source;
  if (const auto planned = planned_.find(weights); planned != planned_.end()) {
    source = planned->second;
    source.is_own = kind != "train";
    return source;
  }
  const bool is_of_stage = whole_.has_stages() && fs::path(weights).parent_path() == run_dir(whole_);
  if (is_of_stage && !fs::exists(weights)) return {};  // without it the stage cannot run
  return kind == "train" ? values_of_run({}, weights) : values_of_result(weights);
}

void ValueSources::add_planned(const Session& session) {
  const std::string folder = folder_of(whole_, session.config()).string();
  const ValueSource& values = session.args().values;
  planned_[folder] = {.from = folder,
                      .options = config::stored_values(session.resolved_toml()),
                      .base = session.config().paths_from(),
                      .followed = !values.folder.empty() || !origins_of_parts(session).empty() ||
                                  (!values.from.empty() && has_followed(values))};
}

std::vector<config::Config> stages_of(const config::Config& whole) {
  if (!whole.has_stages()) return {whole};
  std::vector<config::Config> stages;
  for (const std::string& name : whole.stage_names()) stages.push_back(whole.for_stage(name));
  return stages;
}

uint32_t purpose_of_stage(const config::Config& stage) {
  const std::string& kind = stage.options().stage.kind;
  return kind == "evaluate" || kind == "pool" ? PL_PURPOSE_EVALUATE
         : kind == "predict"                  ? PL_PURPOSE_PREDICT
         : kind == "export"                   ? PL_PURPOSE_EXPORT
                                              : PL_PURPOSE_TRAIN;
}

std::vector<std::pair<std::string, std::string>> set_paths(const config::Settings& options) {
  std::vector<std::pair<std::string, std::string>> paths;
  for (const std::string& key : options.keys()) {
    const uint32_t type = options.setting(key).option.type;
    if (!options.is_set(key) || config::element_type(type) != PL_OPTION_PATH) continue;
    if (!config::is_list(type))
      paths.emplace_back(key, *options.find_path(key));
    else
      for (std::string& path : options.get_path_list(key)) paths.emplace_back(key, std::move(path));
  }
  return paths;
}

bool reads_of_stage_before(const config::Config& whole, const Session& session) {
  const fs::path own = folder_of(whole, session.config());
  const auto paths = set_paths(session.task_config());
  for (const config::Config& stage : stages_of(whole)) {
    const fs::path folder = folder_of(whole, stage);
    if (folder == own) return false;
    for (const auto& [key, path] : paths)
      if (fs::path(path).lexically_normal().string().starts_with(folder.lexically_normal().string() + "/"))
        return true;
  }
  return false;
}

void check_stages(const config::Config& whole) {
  if (!whole.has_stages()) return;
  for (const config::Config& stage : stages_of(whole)) {
    const std::string& kind = stage.options().stage.kind;
    with_room_for_names(stage, "stage.name", run_dir(whole) / stage.options().stage.name);
    if (kind == "pool")
      check_pool(whole, stage);
    else if (kind != "train" && init_from(whole, stage).empty())
      throw stage.error("stage.init_from",
                        fmt::format("stage '{}' (kind {}) needs weights: name the stage to take them from, "
                                    "or a run or checkpoint in train.init_from",
                                    stage.options().stage.name, kind));
  }
}

Outcome run_stages(const Workspace& workspace, bool fresh, const OnStage& on_stage) {
  const config::Config& config = workspace.config;
  const fs::path base = run_dir(config);
  check_everything(workspace, fresh);
  if (!config.has_stages()) {
    RunFolder folder = open_folder(workspace, base, fresh);
    on_stage(base, "train");
    return in_folder(folder, workspace.log, [&] {
      return train_stage(workspace, folder, config, init_from(config, config), [] {});
    });
  }
  const std::vector<config::Config> stages = stages_of(config);
  const bool one_stage = stages.size() == 1;
  RunFolder all = open_folder(workspace, base, fresh && !one_stage);
  if (all.moved_aside())
    workspace.log.info(fmt::format("the old run was moved aside to {}", all.moved_aside()->string()));
  // A launch that is refused leaves the run's own configuration as it is.
  const auto keep_launch = [&] {
    if (!config.is_of_one_stage())
      all.write_file("config.toml", config::stored_config(config, config.to_toml(true), all.path()));
    for (const config::Config& stage : stages)
      if (stage.options().stage.kind == "train") keep_changes_for_later(stage, folder_of(config, stage));
  };
  return in_folder(all, workspace.log, [&] {
    for (const config::Config& stage : stages) {
      const std::string& name = stage.options().stage.name;
      const std::string& kind = stage.options().stage.kind;
      workspace.log.info(fmt::format("stage {} ({})", name, kind));
      RunFolder folder = open_folder(workspace, base / name, fresh && one_stage);
      on_stage(base / name, kind);
      const std::string weights = init_from(config, stage);
      const Outcome outcome = in_folder(folder, workspace.log, [&] {
        if (kind == "train") return train_stage(workspace, folder, stage, weights, keep_launch);
        if (kind == "pool") return pool_stage(workspace, folder, stage, keep_launch);
        return inference_stage(workspace, folder, stage, weights, keep_launch);
      });
      if (outcome == Outcome::interrupted) return outcome;
    }
    return Outcome::finished;
  });
}

Outcome run_verb(std::string_view verb, const Workspace& workspace, const VerbArgs& args) {
  const config::Config stage = trained_stage(workspace.config);
  return infer(verb, stage, workspace, inference_args(workspace, args));
}

Outcome converse(const Workspace& workspace, const VerbArgs& args,
                 const std::function<void(const Reply& reply)>& talk) {
  const config::Config stage = trained_stage(workspace.config);
  return converse(stage, workspace, inference_args(workspace, args), talk);
}

fs::path export_folder(const config::Config& config, const VerbArgs& args) {
  return args.output.empty() ? result_folder(config) / "export" : args.output;
}

fs::path run_dir(const config::Config& config) {
  const config::RunOptions& run = config.options().run;
  if (!run.dir.empty())
    return with_room_for_names(config, "run.dir", without_trailing_slash(run.dir.absolute()));
  if (run.name == "." || run.name == ".." || run.name.find('/') != std::string::npos)
    throw config.error("run.name",
                       "must be a plain name, which the folder below runs/ gets: for a path use run.dir");
  const bool is_named = !run.name.empty();
  return with_room_for_names(
      config, is_named ? "run.name" : "run.dir",
      start_folder() / "runs" / (is_named ? run.name : fs::path(config.file()).stem().string()));
}

fs::path without_trailing_slash(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return normal.has_filename() || normal == normal.root_path() ? normal : normal.parent_path();
}

SessionArgs session_args(const Workspace& workspace, uint32_t purpose, const fs::path& folder,
                         ValueSource values) {
  return {.purpose = purpose,
          .run_dir = folder,
          .cancelled = [] { return Signals::received() != 0; },
          .world = workspace.processes.world(),
          .processes = &workspace.processes,
          .values = std::move(values)};
}

}  // namespace pipeline::train
