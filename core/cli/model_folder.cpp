#include "core/cli/verb.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/fail.hpp"
#include "core/base/foreign.hpp"
#include "core/base/program.hpp"
#include "core/train/session/value_source.hpp"
#include "core/train/stages/inference.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualTask = "chat";
constexpr const char* kAdapterFile = "adapter_config.json";

bool is_adapter(const std::string& folder) { return fs::exists(from_start(folder) / kAdapterFile); }

// The folder of the model that a PEFT adapter belongs to.
std::string base_of_adapter(const std::string& folder) {
  const fs::path path = fs::path(folder) / kAdapterFile;
  constexpr const char* kKey = "base_model_name_or_path";
  const nlohmann::json config =
      nlohmann::json::parse(std::ifstream(path), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw Error(PL_ERROR_CONFIG, path.string() + ": is no JSON object: it is damaged");
  const bool has_name = config.contains(kKey) && config[kKey].is_string();
  const std::string base = has_name ? config[kKey].get<std::string>() : "";
  if (train::is_foreign(base)) return base;
  const std::string hub = foreign::hub_remedy(base);
  fail(PL_ERROR_CONFIG,
       "{}: {} = \"{}\": is no folder of a model here: name that folder in place of {}, and --set "
       "task.language.lora.init_from={} (of an ESM-2 task.esm2.lora.init_from, of an ESM C "
       "task.esmc.lora.init_from){}{}",
       path.string(), kKey, base, folder, folder, hub.empty() ? "" : "; ", hub);
}

// Throws Error that says what else a name can be that no configuration, run or model has. Returns where the
// configuration's own error says more.
void explain_no_folder(const std::string& file) {
  const fs::path path = from_start(file);
  std::error_code error;
  if (!fs::exists(path, error)) {
    const std::string hub = path.extension() == ".toml" || fs::exists(path.string() + ".toml", error)
                                ? ""
                                : foreign::hub_remedy(file);
    if (!hub.empty())
      fail(PL_ERROR_CONFIG, "{}: there is no such file or folder: a configuration is a .toml file; {}", file,
           hub);
    return;
  }
  if (fs::exists(path / "config.toml", error) || train::is_ours(path)) return;
  const bool is_weights = path.extension() == ".safetensors";
  if (!fs::is_directory(path, error) && !is_weights) return;
  const std::string known = foreign::folder(path);
  fail(PL_ERROR_CONFIG, "{}: {}", file,
       known.empty() ? "is a folder without a config.toml, as a run has, or a config.json, as a model has: "
                       "name a .toml file, or the folder of a run or of a model"
                     : known);
}

// Why `task`, which reads such folders, does not take this one; empty: it does.
std::string problem_of(const plugins::Plugin& task, const std::string& folder) {
  try {
    const config::Config defaults = config::load({.sets = {fmt::format("task.plugin=\"{}\"", task.name())}});
    train::model_options(task, defaults.plugin("task", task.options()), {.folder = folder});
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string task_for(plugins::Registry& registry, const std::string& folder) {
  std::vector<std::string> names = registry.names(plugins::Kind::kTask), takers;
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == kUsualTask; });
  std::string problems;
  for (const std::string& name : names) {
    const plugins::Plugin* task = nullptr;
    try {
      task = &registry.find(plugins::Kind::kTask, name);
    } catch (const Error&) {  // `pipeline plugins` says why it does not load
    }
    if (task == nullptr || !task->task().model_options) continue;
    std::string problem = problem_of(*task, folder);
    if (problem.empty() && name == kUsualTask) return name;
    if (problem.empty()) takers.push_back(name);
    if (!problem.starts_with(name)) problem.insert(0, name + ": ");
    problems += "\n  " + problem;
  }
  if (takers.size() == 1) return takers.front();
  throw Error(PL_ERROR_CONFIG,
              takers.empty()
                  ? fmt::format("{}: no task takes this model's folder:{}", folder, problems)
                  : fmt::format("{}: the tasks {} take such a model: say which, as in --set task.plugin={}",
                                folder, fmt::join(takers, " and "), takers.front()));
}

// The option that takes this model's adapter: with it set, the model's folder says more of its table.
std::string adapter_option(const plugins::Plugin& task, const std::string& folder,
                           const std::string& adapter) {
  const std::vector<std::string> options = train::adapter_options(task);
  if (options.empty())
    fail(PL_ERROR_CONFIG, "{}: is a PEFT adapter, and the task {} takes none", adapter, task.name());
  if (options.size() == 1) return options.front();
  for (const std::string& option : options) {
    const size_t begin = std::string_view("task.").size();
    const std::string table = option.substr(begin, option.rfind('.') + 1 - begin);
    const config::Config config = config::load({.sets = {fmt::format("task.plugin=\"{}\"", task.name()),
                                                         fmt::format("{}=\"{}\"", option, adapter)}});
    const auto told = train::model_options(task, config.plugin("task", task.options()), {.folder = folder});
    if (std::ranges::any_of(told, [&](const config::ModelOption& one) { return one.key.starts_with(table); }))
      return option;
  }
  return options.front();
}

}  // namespace

bool is_model_folder(const std::string& file) {
  return is_adapter(file) || train::is_foreign(from_start(file));
}

bool has_parts(const std::string& folder) {
  const nlohmann::json config = nlohmann::json::parse(std::ifstream(fs::path(folder) / "config.json"),
                                                      nullptr, /*allow_exceptions=*/false);
  return config.is_object() && config.contains("vision_config");
}

void take_model_folder(ConfigArgs& args, train::VerbArgs& verb_args) {
  const std::string named = args.file;
  if (!is_model_folder(named)) return explain_no_folder(named);
  const bool adapts = is_adapter(named);
  if (verb_args.checkpoint != train::VerbArgs().checkpoint)
    fail(PL_ERROR_CONFIG,
         "{} is a model folder, whose weights are used: leave out --checkpoint {}, or name a configuration "
         "in its place",
         named, verb_args.checkpoint);
  verb_args.checkpoint = adapts ? base_of_adapter(named) : named;
  args.file.clear();
  const auto sets = [&](std::string_view key) {
    return std::ranges::any_of(args.sets, [&](const std::string& set) { return set.starts_with(key); });
  };
  std::vector<std::string> more;
  if (!sets("run.dir=") && !sets("run.name="))  // not that of a run, which may have made the folder
    more.push_back(fmt::format("run.name=\"{}-{}\"",
                               train::without_trailing_slash(from_start(named)).filename().string(),
                               adapts ? "adapter" : "model"));
  const bool asks = !sets("task.plugin=");
  if (asks) more.push_back("task.plugin=\"none\"");
  args.sets.insert(args.sets.begin(), more.begin(), more.end());
  if (!asks && !adapts) return;

  const config::Config config = args.load();
  plugins::Registry registry =
      make_registry(args.plugin_paths, config::absolute(config.options().plugins.paths));
  std::string& chosen = args.sets[more.size() - 1];
  std::string name = config.options().plugins.task;
  if (asks) {
    name = task_for(registry, verb_args.checkpoint);
    chosen = fmt::format("task.plugin=\"{}\"", name);
  }
  if (!adapts) return;
  const std::string option =
      adapter_option(registry.find(plugins::Kind::kTask, name), verb_args.checkpoint, named);
  args.sets.insert(args.sets.begin(), fmt::format("{}=\"{}\"", option, named));
}

}  // namespace pipeline::cli
