#include "core/cli/completion.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/base/abi_values.hpp"
#include "core/base/error.hpp"
#include "core/config/option.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;
using Candidates = std::vector<Candidate>;

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

void note(const CLI::Option& option, const std::string& value, CommandLine& line) {
  const std::string& name = option.get_single_name();
  if (name == "FILE" || (name == "RUN" && value.ends_with(".toml")))
    line.files.push_back(line.args.file = value);
  if (name == "set" || name == "change") line.args.sets.push_back(value);
  if (name == "stage") line.args.stage = value;
  if (name == "plugin-path") line.args.plugin_paths.push_back(value);
}

// The positional argument with this index; the last one may take many.
const CLI::Option* positional(const CLI::App& verb, size_t index) {
  const auto all = positionals_of(verb);
  if (index < all.size()) return all[index];
  return !all.empty() && all.back()->get_expected_max() > 1 ? all.back() : nullptr;
}

// Folders, and the files with this extension ("": all), of the folder that `typed` is in.
Candidates files(const std::string& typed, std::string_view extension, bool folders_alone = false) {
  const size_t slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string begin = typed.substr(folder.size());
  std::string place = folder.empty() ? "." : folder;
  if (const char* home = std::getenv("HOME"); home && place.starts_with("~/")) place.replace(0, 1, home);
  Candidates found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || (begin.empty() && name.starts_with('.'))) continue;
    std::error_code unreadable;
    if (entry.is_directory(unreadable))
      found.push_back({folder + name + "/", ""});
    else if (!folders_alone && (extension.empty() || name.ends_with(extension)))
      found.push_back({folder + name, ""});
  }
  return found;
}

// The configuration and the plugins, as far as the line names them.
class Context {
 public:
  explicit Context(ConfigArgs args) : args_(std::move(args)) {
    try {
      if (!args_.file.empty()) config_ = args_.load();
    } catch (const std::exception&) {  // said when the command is run
    }
  }

  std::vector<std::string> stages() const {
    return config_ && config_->has_stages() ? config_->all_stage_names() : std::vector<std::string>{};
  }

  plugins::Registry& registry() {
    if (!registry_)
      registry_ = std::make_unique<plugins::Registry>(
          make_registry(args_.plugin_paths, config_ ? config::absolute(config_->options().plugins.paths)
                                                    : std::vector<std::string>{}));
    return *registry_;
  }

  // The options of the plugins that a table may have: of the one that the configuration names, or else of
  // all.
  std::vector<pl_option> plugin_options(plugins::Kind kind, const std::string& stage) {
    const std::string table(plugins::kind_name(kind));
    std::vector<const plugins::Plugin*> used;
    std::string named;
    if (config_)
      named =
          (stage.empty() ? *config_ : config_->for_stage(stage)).find_string(table + ".plugin").value_or("");
    if (named.empty() || named == "auto")
      used = registry().all(kind);
    else
      used.push_back(&registry().find(kind, named));
    std::vector<pl_option> options;
    for (const plugins::Plugin* plugin : used)
      options.insert(options.end(), plugin->options().begin(), plugin->options().end());
    return options;
  }

 private:
  ConfigArgs args_;
  std::optional<config::Config> config_;
  std::unique_ptr<plugins::Registry> registry_;
};

struct Key {
  std::string name;
  pl_option option;
};

// The keys that `typed` may become: the core's, and those of the plugins if it is in their table.
std::vector<Key> keys(const std::string& typed, const std::string& stage, Context& context) {
  std::vector<Key> found;
  for (const pl_option& option : config::core_options())
    if (!view(option.key).starts_with("stage.")) found.push_back({std::string(view(option.key)), option});
  for (const plugins::Kind kind : plugins::kKinds) {
    const std::string table = std::string(plugins::kind_name(kind)) + ".";
    if (!typed.starts_with(table)) continue;
    try {
      for (const pl_option& option : context.plugin_options(kind, stage))
        found.push_back({table + std::string(view(option.key)), option});
    } catch (const std::exception&) {  // one that does not load: the core's keys are left
    }
  }
  return found;
}

Candidates values(const Key& key, const std::string& typed, Context& context) {
  Candidates found;
  const pl_option& option = key.option;
  for (uint32_t i = 0; option.choices && i < option.choice_count; ++i)
    found.push_back({std::string(view(option.choices[i])), ""});
  if (option.type == PL_OPTION_BOOL) found = {{"true", ""}, {"false", ""}};
  if (option.type == PL_OPTION_PATH) found = files(typed, "");
  for (const plugins::Kind kind : plugins::kKinds) {
    if (key.name != std::string(plugins::kind_name(kind)) + ".plugin") continue;
    if (kind == plugins::Kind::kOptimizer) found.push_back({"none", ""});
    if (kind == plugins::Kind::kStrategy || kind == plugins::Kind::kBackend) found.push_back({"auto", ""});
    for (const std::string& name : context.registry().names(kind)) found.push_back({name, ""});
  }
  return found;
}

// KEY=VALUE, a table at a time: "tr" becomes "train.", and that "train.max_steps=".
Candidates assignments(const std::string& typed, const std::string& stage, Context& context) {
  Candidates found;
  const size_t equals = typed.find('=');
  for (const Key& key : keys(typed, stage, context)) {
    if (equals != std::string::npos) {
      if (key.name != typed.substr(0, equals)) continue;
      for (Candidate& value : values(key, typed.substr(equals + 1), context))
        found.push_back({key.name + "=" + value.text, ""});
      break;
    }
    if (!key.name.starts_with(typed)) continue;
    const size_t dot = key.name.find('.', typed.size());
    if (dot == std::string::npos)
      found.push_back({key.name + "=", std::string(view(key.option.help))});
    else
      found.push_back({key.name.substr(0, dot + 1), ""});
  }
  return found;
}

Candidates settings(const std::string& typed, Context& context) {
  constexpr std::string_view kStage = "stage.";
  const std::vector<std::string> stages = context.stages();
  if (!typed.starts_with(kStage)) {
    Candidates found = assignments(typed, "", context);
    if (!stages.empty()) found.push_back({std::string(kStage), "one stage alone"});
    return found;
  }
  for (const std::string& stage : stages) {
    const std::string table = std::string(kStage) + stage + ".";
    if (!typed.starts_with(table)) continue;
    Candidates found = assignments(typed.substr(table.size()), stage, context);
    for (Candidate& candidate : found) candidate.text.insert(0, table);
    return found;
  }
  Candidates found;
  for (const std::string& stage : stages) found.push_back({std::string(kStage) + stage + ".", ""});
  return found;
}

// What `pipeline explain` knows.
Candidates explained(Context& context) {
  Candidates found{{"core", "every option that is not a plugin's"}};
  for (const pl_option& option : config::core_options()) {
    const std::string_view key = view(option.key);
    found.push_back({std::string(key.substr(0, key.find('.'))), "a table"});
  }
  for (const plugins::Kind kind : plugins::kKinds)
    for (const std::string& name : context.registry().names(kind))
      found.push_back({name, "a " + std::string(plugins::kind_name(kind))});
  return found;
}

// What may stand for a placeholder of the help.
Candidates arguments(const CLI::Option& option, const std::string& typed, const CommandLine& line) {
  const std::string what = placeholder(option);
  if (what.find('|') != std::string::npos) {  // words, and perhaps PATH
    Candidates found;
    for (const std::string& word : CLI::detail::split(what, '|')) {
      if (std::ranges::none_of(word, [](unsigned char c) { return std::isupper(c); }))
        found.push_back({word, ""});
      else
        std::ranges::move(files(typed, ""), std::back_inserter(found));
    }
    return found;
  }
  Context context(line.args);
  if (what == "KEY=VALUE") return settings(typed, context);
  if (what == "FOLDER") return files(typed, "", true);
  if (what == "PLUGIN") return files(typed, ".so");
  if (what == "FILE" && !option.get_positional()) return files(typed, "");
  if (what == "FILE" || what == "RUN") return files(typed, ".toml");
  if (what == "PATH") return files(typed, "");
  if (what == "NAME" && option.get_positional()) return explained(context);
  Candidates found;
  if (option.get_single_name() == "stage")
    for (const std::string& stage : context.stages()) found.push_back({stage, ""});
  return found;
}

Candidates options_of(const CLI::App& app) {
  Candidates found;
  for (const CLI::Option* option : app.get_options([](const CLI::Option* o) { return o->nonpositional(); })) {
    if (option->get_group().empty()) continue;  // not in the help either
    const auto& names = option->get_lnames();
    found.push_back({names.empty() ? "-" + option->get_snames().front() : "--" + names.front(),
                     option->get_description()});
  }
  return found;
}

Candidates candidates(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string& typed = words.back();
  const CLI::App* verb = words.size() > 1 ? verb_called(app, words.front()) : nullptr;
  if (!verb) {
    if (words.size() > 1) return {};
    if (typed.starts_with('-')) return options_of(app);
    Candidates verbs;
    for (const CLI::App* each : app.get_subcommands({}))
      verbs.push_back({each->get_name(), each->get_description()});
    return verbs;
  }
  const CommandLine line = read_words(*verb, std::span(words).subspan(1, words.size() - 2));
  if (line.open) return arguments(*line.open, typed, line);
  if (typed.starts_with('-')) {
    const size_t equals = typed.find('=');
    if (equals == std::string::npos) return options_of(*verb);
    const CLI::Option* option = verb->get_option_no_throw(typed.substr(0, equals));
    if (!option || !takes_value(*option)) return {};
    Candidates found = arguments(*option, typed.substr(equals + 1), line);
    for (Candidate& candidate : found) candidate.text.insert(0, typed.substr(0, equals + 1));
    return found;
  }
  const CLI::Option* option = positional(*verb, line.positionals);
  return option ? arguments(*option, typed, line) : options_of(*verb);
}

}  // namespace

CommandLine read_words(const CLI::App& verb, std::span<const std::string> words) {
  CommandLine line;
  for (const std::string& word : words) {
    if (line.open) {
      note(*line.open, word, line);
      line.open = nullptr;
    } else if (word.size() > 1 && word.starts_with('-')) {
      const size_t equals = word.find('=');
      const CLI::Option* option = verb.get_option_no_throw(word.substr(0, equals));
      if (!option || !takes_value(*option)) continue;
      if (equals == std::string::npos)
        line.open = option;
      else
        note(*option, word.substr(equals + 1), line);
    } else if (const CLI::Option* option = positional(verb, line.positionals++)) {
      note(*option, word, line);
    }
  }
  return line;
}

const CLI::App* verb_called(const CLI::App& app, std::string_view name) {
  for (const CLI::App* verb : app.get_subcommands({}))
    if (verb->get_name() == name) return verb;
  return nullptr;
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& verb) {
  return verb.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::string placeholder(const CLI::Option& option) {
  std::string type = option.get_type_name();
  type.erase(std::min(type.size(), type.find(':')));
  return option.get_positional() && type == "TEXT" ? option.get_name(true) : type;
}

std::vector<Candidate> complete(const CLI::App& app, const std::vector<std::string>& words) {
  Candidates found;
  try {
    if (!words.empty()) found = candidates(app, words);
  } catch (const std::exception&) {  // a plugin that does not load, a folder that is none
  }
  std::erase_if(found, [&](const Candidate& each) { return !each.text.starts_with(words.back()); });
  std::ranges::sort(found, {}, &Candidate::text);
  const auto same = [](const Candidate& a, const Candidate& b) { return a.text == b.text; };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  return found;
}

}  // namespace pipeline::cli
