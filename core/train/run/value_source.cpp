#include "core/train/run/value_source.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/checkpoint/manifest.hpp"
#include "core/checkpoint/store.hpp"
#include "core/plugins/call.hpp"
#include "core/plugins/host.hpp"
#include "core/train/run/weights.hpp"

namespace pipeline::train {
namespace {

namespace fs = std::filesystem;

// Nothing where there is no such checkpoint; whether its tensors are whole is for those who load them.
std::optional<ValueSource> options_of(const std::string& checkpoint) {
  const fs::path path = fs::path(checkpoint) / checkpoint::kManifestName;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return values_of_checkpoint(checkpoint, checkpoint::parse_manifest(text, path.string()).contents);
}

// Whether that run began with values of others itself, so that its options may have followed them.
bool has_followed(const ValueSource& source) {
  return std::ranges::any_of(source.options, [](const auto& option) {
    return option.first.ends_with(".init_from") && option.second != "\"\"";
  });
}

// A plugin's answers, as the configuration takes them.
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
                              .value = std::string(view(toml)),
                              .from = std::string(view(from)),
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
  const fs::path checkpoints = fs::path(path).parent_path();
  return {.from = path,
          .options = config::stored_values(contents.config_toml),
          .base = config::paths_base_of_run(checkpoints.parent_path())};
}

ValueSource values_of_run(const fs::path& folder, const std::string& weights) {
  if (!folder.empty()) {
    const checkpoint::Scan scan = checkpoint::Store({.folder = (folder / "checkpoints").string()}).scan();
    if (!scan.checkpoints.empty())
      if (auto own = options_of(scan.checkpoints.front().path)) {
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

std::vector<config::ModelOption> model_options(const plugins::Plugin& task, const pl_config& config,
                                               const ValueSource& source) {
  Answers answers{.task = task};
  if (source.is_own || !source.from.empty()) {
    const uint32_t flags =
        PL_OPTION_OF_MODEL | (source.is_own || has_followed(source) ? PL_OPTION_FOLLOWS : 0u);
    for (const pl_option& option : task.options()) {
      const std::string key(view(option.key));
      const auto stored = source.options.find(config.prefix() + key);
      if ((option.flags & flags) == 0 || stored == source.options.end() || stored->second == config.show(key))
        continue;
      answers.said.push_back({.key = key,
                              .value = stored->second,
                              .from = source.from,
                              .must_be = (option.flags & PL_OPTION_OF_MODEL) != 0 && !source.goes_on,
                              .base = source.base});
    }
    return answers.said;
  }
  const auto* extension = static_cast<const pl_model_options*>(task.query(PL_EXTENSION_MODEL_OPTIONS));
  if (extension == nullptr || !PL_HAS(pl_model_options, extension, read)) return {};
  auto sink = sized<pl_model_options_sink>();
  sink.user = &answers;
  sink.value = Answers::value;
  sink.problem = Answers::problem;
  check(plugins::contain(task, "read", [&] {
    return extension->read(&plugins::host_table(), &config, to_pl(source.folder), &sink);
  }));
  return answers.said;
}

}  // namespace pipeline::train
