#include "core/cli/completion.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/config/error.hpp"
#include "core/config/option.hpp"
#include "core/config/suggest.hpp"

namespace pipeline::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  return names;
}

// The option that is meant where it can be no other: in another spelling, or cut short as other parsers
// allow.
std::string same_option(const std::string& name, const std::vector<std::string>& options) {
  constexpr size_t kShortest = 3;
  std::vector<std::string> longer;
  for (const std::string& option : options) {
    if (config::edit_distance(option, name) == 0) return option;
    if (name.size() >= kShortest && option.starts_with(name)) longer.push_back(option);
  }
  return longer.size() == 1 ? longer.front() : "";
}

std::string_view name_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

// The core's keys that are `name`, or called so in some table.
std::vector<std::string> keys_called(std::string_view name) {
  std::vector<std::string> keys;
  for (const pl_option& option : config::core_options())
    if (const std::string_view key = view(option.key);
        !key.starts_with("stage.") &&
        (config::edit_distance(key, name) == 0 || config::edit_distance(name_of(key), name) == 0))
      keys.emplace_back(key);
  return keys;
}

// "train.max_steps" -> "--set train.max_steps=3". `ours`: a key, and perhaps more about it.
std::string setting(std::string_view ours, const std::string& value) {
  const std::string_view key = ours.substr(0, ours.find_first_of(" ,:")), rest = ours.substr(key.size());
  if (rest.empty() || rest.starts_with(", ")) return fmt::format("--set {}={}{}", key, value, rest);
  return fmt::format("--set KEY=VALUE: {}", ours);
}

// What to write in place of --NAME VALUE; empty: nobody knows.
std::string in_place_of(const std::string& name, const std::string& value, const CLI::App& verb) {
  constexpr std::string_view kSettings = "pipeline takes settings as ";
  const auto did_you_mean = [](const std::string& option) { return "did you mean --" + option + "?"; };
  const std::vector<std::string> options = option_names(verb);
  if (const std::string same = same_option(name, options); !same.empty()) return did_you_mean(same);
  const std::string near = config::closest(name, options);
  if (!verb.get_option_no_throw("--set")) return near.empty() ? "" : did_you_mean(near);

  const std::string_view ours = config::our_name_for_option(name);
  std::vector<std::string> keys = keys_called(name);
  if (keys.empty() && ours.empty()) keys = keys_called(name_of(name));  // --trainer.max_steps
  if (keys.size() == 1) return fmt::format("{}{}", kSettings, setting(keys.front(), value));
  if (!keys.empty()) return fmt::format("{}--set KEY=VALUE: {}", kSettings, config::alternatives(keys));
  if (!ours.empty()) {
    const bool is_setting = ours.substr(0, ours.find_first_of(" ,:")).find('.') != std::string_view::npos;
    return is_setting ? fmt::format("{}{}", kSettings, setting(ours, value)) : std::string(ours);
  }
  if (const std::string_view why = config::why_needless(name); !why.empty())
    return fmt::format("leave it out: {}", why);
  if (const std::string_view table = config::our_name_for_table(name); table.starts_with('['))
    return fmt::format("{}--set KEY=VALUE: the keys in {} are in `pipeline explain`", kSettings, table);
  if (!near.empty()) return did_you_mean(near);

  std::vector<std::string> names;
  for (const pl_option& option : config::core_options()) names.emplace_back(name_of(view(option.key)));
  if (const std::string similar = config::closest(name, names); !similar.empty())
    return fmt::format("{}--set KEY=VALUE: did you mean {}?", kSettings,
                       config::alternatives(keys_called(similar)));
  if (const std::string_view theirs = config::closest_foreign_key(name, name.size()); !theirs.empty())
    return fmt::format("{}--set KEY=VALUE: if {} is meant, write {}", kSettings, theirs,
                       config::our_name_for_key(theirs));
  return fmt::format("{}--set KEY=VALUE; `pipeline explain` lists the keys", kSettings);
}

// What follows the option on the command line, if that can be its value.
std::string value_behind(const std::string& option, std::span<const std::string> arguments) {
  const size_t equals = option.find('=');
  std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  if (equals == std::string::npos)
    if (const auto at = std::ranges::find(arguments, option);
        arguments.end() - at > 1 && !(at + 1)->starts_with('-') && !(at + 1)->ends_with(".toml"))
      value = *(at + 1);
  return value.empty() || value.find_first_of(" \"'\\$") != std::string::npos ? "VALUE" : value;
}

}  // namespace

void refuse_unknown_verb(const CLI::App& app, std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return;
  const std::string& word = arguments[0];
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  if (std::ranges::find(names, word) != names.end()) return;
  if (word.ends_with(".toml")) fail(PL_ERROR_CONFIG, "{}: a verb comes first: pipeline run {}", word, word);
  std::string answer;
  if (const std::string_view ours = config::our_name_for_verb(word); !ours.empty())
    answer = fmt::format(": write pipeline {}", ours);
  else if (const std::string guess = config::closest(word, names); !guess.empty())
    answer = fmt::format(", did you mean '{}'?", guess);
  fail(PL_ERROR_CONFIG, "unknown verb '{}'{}; `pipeline --help` lists them", word, answer);
}

void refuse_unknown_option(const CLI::App& app, std::span<const std::string> arguments) {
  const std::vector<std::string> unknown = app.remaining(true);
  const auto found = std::ranges::find_if(unknown, [](const std::string& word) {
    return word.size() > 1 && (word[0] == '-' || word.find('=') != std::string::npos);
  });
  if (found == unknown.end()) return;
  const bool has_verb = !app.get_subcommands().empty();
  const CLI::App& verb = has_verb ? *app.get_subcommands().front() : *app.get_subcommand("run");
  const std::string option = found->substr(0, found->find('='));
  const std::string name = option.substr(std::min(option.find_first_not_of("-+"), option.size()));
  const std::string answer = in_place_of(name, value_behind(*found, arguments), verb);
  fail(PL_ERROR_CONFIG, "{}: {}{}", option,
       answer.empty() ? fmt::format("unknown option; `pipeline {} --help` lists them", verb.get_name())
                      : answer,
       has_verb ? "" : "; a verb and the file come first: pipeline run FILE.toml");
}

}  // namespace pipeline::cli
