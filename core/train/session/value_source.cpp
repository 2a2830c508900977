#include "core/train/session/value_source.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/files.hpp"
#include "core/base/foreign.hpp"
#include "core/base/program.hpp"
#include "core/checkpoint/store.hpp"
#include "core/config/sources.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"
#include "core/safetensors/crc32c.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = " (manifest ";  // and its checksum

// What is wrong with weights that are no folder.
std::string no_folder(const std::string& path) {
  if (as_shown(path) == "unset") return "there is no folder unset: to start from fresh weights write \"\"";
  if (fs::exists(path)) return fmt::format("{} {}", path, foreign::folder(path));
  const std::string remedy = foreign::hub_remedy(path);
  return fmt::format(
      "there is no folder {}: run the stage that makes it first, or name a stage, a run, a checkpoint or a "
      "folder of another tool that is there{}",
      path, remedy.empty() ? "" : "; " + remedy);
}

// The source that a checkpoint is; nothing where there is none. Whether its tensors are whole, loading shows.
std::optional<ValueSource> options_of(const std::string& checkpoint) {
  const fs::path path = fs::path(checkpoint) / checkpoint::kManifestName;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text = rest_of(file);
  return values_of_checkpoint(checkpoint, checkpoint::parse_manifest(text, path.string()).contents);
}

// The folder of the run that has the checkpoint; empty: it lies elsewhere.
fs::path run_of(const std::string& checkpoint) {
  const fs::path checkpoints = fs::absolute(checkpoint).parent_path();
  return checkpoints.filename() == "checkpoints" ? checkpoints.parent_path() : fs::path();
}

// What the option of type string was.
std::string text_of(const ValueSource& source, const char* key) {
  const auto found = source.options.find(key);
  const auto literal = found == source.options.end() ? std::nullopt : config::parse_value(found->second);
  return literal ? literal->text : "";
}

// Where the weights that a run of ours began with came from: another stage of it, or elsewhere; empty: from
// nowhere.
std::string origin_of(const ValueSource& source) {
  const fs::path stages = run_of(source.from).parent_path();
  if (const std::string stage = text_of(source, "stage.init_from"); !stage.empty()) return stages / stage;
  const std::string weights = text_of(source, "train.init_from");
  const bool may_be_stage = !weights.empty() && !text_of(source, "stage.name").empty();
  if (may_be_stage && is_ours(stages / weights)) return stages / weights;
  return config::absolute_path(weights, source.base);
}

// A plugin's answers, as the configuration takes them. Paths among them are as the user would write them:
// what an adapter calls its model goes out with it, and must mean nothing of this machine.
struct Answers {
  const plugins::Plugin& task;
  std::vector<config::ModelOption> said;

  bool is_of_model(std::string_view key) const {
    for (const pl_option& option : task.options())
      if (view(option.key) == key) return (option.flags & PL_OPTION_OF_MODEL) != 0;
    return false;
  }

  static pl_error* value(void* user, pl_str key, pl_str toml, pl_str from) {
    return guard([&] {
      auto& answers = *static_cast<Answers*>(user);
      answers.said.push_back({.key = std::string(view(key)),
                              .value = with_shown_paths(view(toml)),
                              .from = with_shown_paths(view(from)),
                              .must_be = answers.is_of_model(view(key))});
    });
  }
  static pl_error* problem(void* user, pl_str key, pl_str problem) {
    return guard([&] {
      static_cast<Answers*>(user)->said.push_back(
          {.key = std::string(view(key)), .problem = std::string(view(problem))});
    });
  }
};

}  // namespace

const char* weights_key(const config::Config& config) {
  return config.is_set("stage.init_from") ? "stage.init_from" : "train.init_from";
}

void require_folder(const config::Config& config, const std::string& init_from) {
  if (fs::is_directory(init_from)) return;
  throw config.error(weights_key(config), no_folder(init_from));
}

bool is_ours(const std::string& weights) {
  const fs::path path = weights;
  for (const char* mark : {"manifest.json", "checkpoints", ".lock"})
    if (fs::exists(path / mark)) return true;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (checkpoint::step_of(entry.path().filename().string())) return true;
  return false;
}

bool is_foreign(const std::string& weights) {
  const fs::path folder = weights;
  return (fs::exists(folder / "config.json") || fs::exists(folder / "modules.json")) && !is_ours(weights);
}

std::string best_checkpoint(const std::string& weights) {
  const fs::path nested = fs::path(weights) / "checkpoints";
  const checkpoint::Store store({.folder = fs::exists(nested) ? nested.string() : weights});
  if (const auto best = store.best()) return best->path;
  const checkpoint::Scan scan = store.scan();
  return scan.checkpoints.empty() ? weights : scan.checkpoints.front().path;
}

std::string checkpoint_of(const std::string& weights) {
  std::string path = best_checkpoint(weights);
  std::ifstream manifest(fs::path(path) / checkpoint::kManifestName, std::ios::binary);
  if (!manifest) return as_shown(path);
  const std::string text = rest_of(manifest);
  return fmt::format("{}{}{})", as_shown(path), kManifest,
                     checkpoint::hex(safetensors::crc32c(0, std::as_bytes(std::span(text)))));
}

bool same_weights(const std::string& then, const std::string& now, const std::string& base) {
  if (then.empty() || now.empty()) return then == now;
  const size_t manifest_then = then.rfind(kManifest), manifest_now = now.rfind(kManifest);
  if (manifest_then != std::string::npos && manifest_now != std::string::npos)
    return then.substr(manifest_then) == now.substr(manifest_now);
  return config::absolute_path(then, base) == config::absolute_path(now);
}

ValueSource values_of_checkpoint(const std::string& path, const checkpoint::Contents& contents) {
  const fs::path run = run_of(path);
  return {.from = path,
          .options = config::stored_values(contents.config_toml),
          .base = run.empty() ? "" : config::paths_base_of_run(run)};
}

ValueSource values_of_run(const fs::path& folder, const std::string& weights) {
  if (!folder.empty()) {
    const fs::path checkpoints = folder / "checkpoints";
    const checkpoint::Scan scan = checkpoint::Store({.folder = checkpoints.string()}).scan();
    std::string newest = scan.checkpoints.empty() ? "" : scan.checkpoints.front().path;
    for (const checkpoint::Rejected& entry : scan.rejected)  // that a launch is about to bring back
      if (newest.empty() && checkpoint::is_replaced(entry.name)) newest = checkpoints / entry.name;
    if (auto own = newest.empty() ? std::nullopt : options_of(newest)) {
      own->is_own = own->goes_on = true;
      return *own;
    }
  }
  if (weights.empty()) return {};
  if (is_ours(weights)) return options_of(best_checkpoint(weights)).value_or(ValueSource());
  return {.folder = weights};
}

ValueSource values_of_result(const std::string& weights) {
  ValueSource source = options_of(best_checkpoint(weights)).value_or(ValueSource());
  source.is_own = true;
  return source;
}

bool has_followed(const ValueSource& of) {
  constexpr int kLongest = 32;  // of runs, which may have begun with each other
  ValueSource source = of;
  for (int run = 0; run < kLongest; ++run) {
    if (source.followed) return *source.followed;
    if (std::ranges::any_of(source.options, [](const auto& option) {
          return option.first.starts_with("task.") && option.first.ends_with(".init_from") &&
                 option.second != "\"\"";
        }))
      return true;
    const std::string weights = origin_of(source);
    if (weights.empty()) return false;
    const auto before = is_ours(weights) ? options_of(best_checkpoint(weights)) : std::nullopt;
    if (!before) return true;
    source = *before;
  }
  return true;
}

std::vector<config::ModelOption> options_of_run(const plugins::Plugin& task,
                                                const config::PluginConfig& config,
                                                const ValueSource& source) {
  std::vector<config::ModelOption> said;
  const uint32_t flags =
      PL_OPTION_OF_MODEL | (source.is_own || has_followed(source) ? PL_OPTION_FOLLOWS : 0u);
  for (const pl_option& option : task.options()) {
    const std::string key(view(option.key));
    const auto stored = source.options.find(config.prefix() + key);
    if ((option.flags & flags) == 0 || stored == source.options.end() || stored->second == config.show(key))
      continue;
    said.push_back({.key = key,
                    .value = stored->second,
                    .from = as_shown(source.from),
                    .must_be = (option.flags & PL_OPTION_OF_MODEL) != 0 && !source.goes_on,
                    .base = source.base});
  }
  return said;
}

std::vector<config::ModelOption> model_options(const plugins::Plugin& task, const pl_config& config,
                                               const ValueSource& source) {
  if (source.is_own || !source.from.empty()) return options_of_run(task, config, source);
  Answers answers{.task = task};
  const auto read = task.task().model_options;
  if (!read) return {};
  auto sink = sized<pl_model_options_sink>();
  sink.user = &answers;
  sink.value = Answers::value;
  sink.problem = Answers::problem;
  check(plugins::contain(task, "model_options",
                         [&] { return read(&plugins::host_table(), &config, to_pl(source.folder), &sink); }));
  return answers.said;
}

}  // namespace pipeline::train
