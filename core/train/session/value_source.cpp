#include "core/train/session/value_source.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/base/program.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/store.hpp"
#include "core/config/document.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"
#include "core/train/session/weights_path.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// The source that a checkpoint is; nothing where there is none. Whether its tensors are whole, loading shows.
std::optional<ValueSource> options_of(const std::string& checkpoint) {
  const fs::path path = fs::path(checkpoint) / checkpoint::kManifestName;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text(std::istreambuf_iterator<char>(file), {});
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
