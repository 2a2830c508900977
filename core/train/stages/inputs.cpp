#include "core/train/stages/inference.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/abi_values.hpp"
#include "core/base/fail.hpp"
#include "core/base/foreign.hpp"
#include "core/train/session/weights.hpp"
#include "core/train/stages/stages.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> task_options_for_adapters(const config::Config& config,
                                                   plugins::Registry& registry) {
  try {
    return adapter_options(registry.find(plugins::Kind::kTask, config.options().plugins.task));
  } catch (const Error&) {  // the session says what is wrong with the task
    return {};
  }
}

// A verb takes the result of the configuration's own run, which is not there.
[[noreturn]] void fail_without_run(const config::Config& config, const InferenceArgs& args) {
  const std::string begins_with = init_from(config, config);
  fail(PL_ERROR_CONFIG,
       "{}: there are no weights of a run yet: train first (pipeline run{}{}), or name those to use without "
       "training: --checkpoint {}",
       args.folder.string(), config.file().empty() ? "" : " ", config.file(),
       is_foreign(begins_with) ? begins_with : "FOLDER, of a model or of another run");
}

// Values are TOML source, and so is `folder`: "runs/x". What lies in the folder goes by its path there.
std::string without_folder(std::string value, std::string folder) {
  if (folder.size() < 3) return value;  // none, or ""
  folder.back() = '/';
  for (size_t at = value.find(folder); at != value.npos; at = value.find(folder, at + 1))
    value.erase(at + 1, folder.size() - 1);
  return value;
}

// Whether the option decides the result of a stage that does not train.
bool decides_result(const config::Difference& one) {
  for (const char* table : {"optimizer.", "schedule.", "loader.", "checkpoint.", "launch.", "observe."})
    if (one.key.starts_with(table)) return false;
  for (const char* place : {"run.dir", "run.name", "run.cache_dir"})
    if (one.key == place) return false;
  return !(one.key.starts_with("train.") && one.by_name);  // the length, clipping
}

}  // namespace

void require_named_weights(const config::Config& config, plugins::Registry& registry,
                           const InferenceArgs& args) {
  const fs::path path = args.checkpoint;
  const std::string named = fmt::format("{} {}", args.named_by, args.checkpoint);
  if (is_foreign(path)) {
    if (args.average > 1 || args.ema)
      fail(PL_ERROR_CONFIG,
           "{}: {} is the model folder of another tool, not a run with checkpoints: leave it out",
           args.ema ? "--ema" : fmt::format("--average {}", args.average), path.string());
    return;
  }
  if (path == args.folder) {
    if (!fs::exists(path / "checkpoints")) fail_without_run(config, args);
    return;
  }
  if (is_ours(path)) return;
  if (fs::exists(path / "adapter_config.json")) {
    std::vector<std::string> options;
    for (const std::string& option : task_options_for_adapters(config, registry))
      options.push_back(fmt::format("--set {}={}", option, args.checkpoint));
    if (options.empty())
      fail(PL_ERROR_CONFIG, "{}: is a PEFT adapter, and the task {} takes none", named,
           config.options().plugins.task);
    fail(PL_ERROR_CONFIG,
         "{}: is a PEFT adapter: name it in place of the configuration, or the folder of its model here and "
         "{}",
         named, fmt::join(options, " or "));
  }
  const std::string known = foreign::folder(path);
  fail(PL_ERROR_CONFIG, "{}: {}", named,
       known.empty() ? "is neither a run or checkpoint (with checkpoints/ or manifest.json) nor a model's "
                       "folder (with config.json and model.safetensors)"
                     : known);
}

std::vector<std::string> adapter_options(const plugins::Plugin& task) {
  std::vector<std::string> options;
  for (const pl_option& option : task.options())
    if (option.type == PL_OPTION_PATH && view(option.key).ends_with("lora.init_from"))
      options.push_back(fmt::format("task.{}", view(option.key)));
  return options;
}

std::string state_of_folder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::error_code unreadable;
    if (entry.is_regular_file(unreadable))
      files.push_back(fmt::format("{} {} {}", entry.path().filename().string(), entry.file_size(unreadable),
                                  entry.last_write_time(unreadable).time_since_epoch().count()));
  }
  std::ranges::sort(files);
  std::string state;
  for (const std::string& file : files) state += file + "\n";
  return state;
}

std::vector<std::string> other_options(std::string_view stored_toml, const config::Config& now,
                                       std::span<const config::PluginConfig* const> plugins) try {
  const std::vector<config::Difference> all = config::differences(stored_toml, now, plugins);
  const auto dir = std::ranges::find(all, "run.dir", &config::Difference::key);
  std::vector<std::string> other;
  for (const config::Difference& one : all) {
    const bool moved =
        dir != all.end() && without_folder(one.before, dir->before) == without_folder(one.now, dir->now);
    if (moved || !decides_result(one)) continue;
    other.push_back(fmt::format("{} was {} and is {}", one.key, config::or_not_set(one.before),
                                config::or_not_set(one.now)));
  }
  return other;
} catch (const config::ConfigError&) {  // such as what a stage of another kind keeps
  return {"its stored options cannot be read"};
}

}  // namespace pipeline::train
