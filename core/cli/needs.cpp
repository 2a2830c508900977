// What of the build a command needs: a checkout compiles the plugins that a configuration names, and no more.
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <glob.h>

#include "core/cli/completion.hpp"
#include "core/cli/verb.hpp"
#include "core/train/stages/stages.hpp"

namespace pipeline::cli {
namespace {

using Targets = std::set<std::string>;

// Whether the table `kind` sets an option besides the plugin's name. Under "auto" such an option may be any
// plugin's, and only they can say whose.
bool has_options(const config::Config& config, const std::string& kind) {
  return std::ranges::any_of(config.rows(), [&](const config::Row& row) {
    return row.key.starts_with(kind + ".") && row.key != kind + ".plugin";
  });
}

void add(const config::Config& config, bool alone, Targets& targets) {
  targets.insert(config.options().plugins.task);
  const config::PluginOptions& plugins = config.options().plugins;
  for (const auto& [kind, named, all, of_one] :
       {std::tuple("strategy", plugins.strategy, "strategies", "single"),
        std::tuple("backend", plugins.backend, "backends", "")}) {
    if (named != "auto")
      targets.insert(named);
    else
      targets.insert(alone && !has_options(config, kind) ? of_one : all);
  }
}

// The texts in the TOML of a value: its plugin may not be there yet, so that nothing is known of it.
std::vector<std::string> texts_in(const std::string& value) {
  std::vector<std::string> texts;
  for (size_t begin = value.find('"'); begin != std::string::npos;) {
    const size_t end = std::min(value.find('"', begin + 1), value.size());
    texts.push_back(value.substr(begin + 1, end - begin - 1));
    begin = value.find('"', end + 1);
  }
  return texts;
}

// Whether the configuration names Parquet files, by their ending, in a folder, or by a pattern; or wants
// some.
bool needs_parquet(const config::Config& config) {
  constexpr std::array<std::string_view, 8> kKeys{
      "task.data.train", "task.data.val",  "task.data.test",  "task.data.source.path",
      "task.sequences",  "task.test_path", "task.split.list", "task.predict.formats"};
  constexpr std::string_view kEnding = ".parquet";
  const auto is_parquet = [&](const std::filesystem::path& path) { return path.extension() == kEnding; };
  for (const config::Row& row : config.rows()) {
    if (std::ranges::find(kKeys, row.key) == kKeys.end()) continue;
    for (const std::string& text : texts_in(row.value)) {
      if (text.find(kEnding) != std::string::npos || text == kEnding.substr(1)) return true;
      glob_t found{};
      ::glob(text.c_str(), 0, nullptr, &found);
      bool is_found = false;
      for (size_t i = 0; i < found.gl_pathc; ++i) {
        const std::filesystem::path path = found.gl_pathv[i];
        is_found = is_found || is_parquet(path);
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
          is_found = is_found || is_parquet(entry.path());
      }
      ::globfree(&found);
      if (is_found) return true;
    }
  }
  return false;
}

void add_command(const std::string& verb, ConfigArgs args, const std::string& file,
                 const std::vector<std::string>& words, Targets& targets) {
  args.file = file;
  constexpr std::array<std::string_view, 4> kTakeModels{"chat", "evaluate", "export", "predict"};
  if (std::ranges::find(kTakeModels, verb) != kTakeModels.end() && is_model_folder(file)) {
    // Only the tasks can say which of them takes the folder.
    args.file.clear();
    if (std::ranges::none_of(args.sets, [](const auto& set) { return set.starts_with("task.plugin="); }))
      args.sets.push_back(
          fmt::format("task.plugin=\"{}\"", verb == "chat" && !has_parts(file) ? "chat" : "tasks"));
  }
  const config::Config config = args.load();
  const bool several =
      verb == "plan" || verb == "compare" || std::ranges::any_of(words, [](const auto& word) {
        return word.starts_with("--node") || word.starts_with("--master");
      });
  const bool alone = !several && planned_world(args, config).size == 1;
  for (const config::Config& stage : train::stages_of(config)) {
    add(stage, alone, targets);
    if (needs_parquet(stage)) targets.insert("parquet_reader");
  }
}

}  // namespace

std::vector<std::string> needed_targets(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* verb = words.empty() ? nullptr : verb_called(app, words.front());
  if (!verb) return {};
  const std::string& name = words.front();
  Targets targets;
  try {
    const CommandLine line = read_words(*verb, std::span(words).subspan(1));
    if (name == "plugins" || name == "check-plugin")
      targets = {"product"};
    else if (name == "devices")
      targets = {"strategies", "backends"};
    else if (name == "explain" && line.positionals == 0 && words.size() > 1)  // --schema, --readme: of all
      targets = {"product"};
    else if (name == "explain")
      targets.insert(words.begin() + 1, words.end());
    else
      for (const std::string& file : line.files) add_command(name, line.args, file, words, targets);
  } catch (const std::exception&) {
    targets = {};
  }
  targets.erase("");
  targets.erase(plugins::kPythonTask);
  return {targets.begin(), targets.end()};
}

}  // namespace pipeline::cli
