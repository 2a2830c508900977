#include "core/cli/verb.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "core/config/core_options.hpp"
#include "core/config/explain.hpp"
#include "core/config/json_schema.hpp"
#include "core/config/option.hpp"
#include "core/config/readme.hpp"
#include "core/config/suggest.hpp"

namespace pipeline::cli {
namespace {

[[noreturn]] void refuse(const plugins::Registry& registry, const std::string& name) {
  std::set<std::string> known{"core"};
  for (const pl_option& option : config::core_options()) {
    const std::string_view key = view(option.key);
    known.emplace(key.substr(0, key.find('.')));
  }
  for (const plugins::Kind kind : plugins::kKinds)
    for (std::string& plugin : registry.names(kind)) known.insert(std::move(plugin));
  const std::vector<std::string> names(known.begin(), known.end());
  const std::string guess = config::closest(name, names);
  throw Error(PL_ERROR_CONFIG,
              fmt::format("there is no plugin and no table of the core's called '{}': {}", name,
                          guess.empty() ? fmt::format("there are {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", guess)));
}

int explain(plugins::Registry& registry, const std::string& name) {
  const auto core = config::core_options();
  if (name.empty() || name == "core") {
    std::fputs(config::explain(core).c_str(), stdout);
    return kDone;
  }
  std::vector<pl_option> of_table;
  std::ranges::copy_if(core, std::back_inserter(of_table), [&](const pl_option& option) { return view(option.key).starts_with(name + '.'); });
  if (!of_table.empty()) std::fputs(config::explain(of_table).c_str(), stdout);
  bool found = !of_table.empty();
  for (const plugins::Kind kind : plugins::kKinds) {
    const auto names = registry.names(kind);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    const plugins::Plugin& plugin = registry.find(kind, name);
    fmt::print("{}{} {}: {}\n\n", found ? "\n" : "", plugin.label(), plugin.version(), plugin.summary());
    if (plugin.options().empty())
      fmt::print("It has no options of its own.\n");
    else
      std::fputs(config::explain(plugin.options(), std::string(plugins::kind_name(kind)) + ".").c_str(), stdout);
    found = true;
  }
  if (!found) refuse(registry, name);
  return kDone;
}

std::vector<config::PluginSchema> all_schemas(plugins::Registry& registry) {
  std::vector<config::PluginSchema> schemas;
  for (const plugins::Kind kind : plugins::kKinds)
    for (const plugins::Plugin* plugin : registry.all(kind))
      schemas.push_back({.table = std::string(plugins::kind_name(kind)),
                         .name = plugin->name(),
                         .summary = plugin->summary(),
                         .options = {plugin->options().begin(), plugin->options().end()}});
  return schemas;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  auto name = std::make_shared<std::string>();
  auto paths = std::make_shared<std::vector<std::string>>();
  auto schema = std::make_shared<bool>(false);
  auto readme = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand("explain", "Lists the options of a plugin, of the core, or of one table");
  verb->add_option("NAME", *name, "a plugin, core (default), or a table of the core's");
  verb->add_option("--plugin-path", *paths, "one more folder to look for plugins in")->type_name("FOLDER")->allow_extra_args(false);
  verb->add_flag("--schema", *schema, "print a JSON Schema of configuration files instead, for editors");
  verb->add_option("--readme", *readme, "print a README of the configurations in this folder, with all options")->type_name("FOLDER");
  verb->footer("Examples:\n  pipeline explain summarization\n  pipeline explain core\n  pipeline explain launch\n  pipeline explain --schema > pipeline.schema.json");
  verb->callback([=, &action] {
    action = [=]() -> int {
      plugins::Registry registry = make_registry(*paths, {}, [](const std::string&) {});
      if (!*schema && readme->empty()) return explain(registry, *name);
      const auto core = config::core_options();
      std::fputs((*schema ? config::json_schema(core, all_schemas(registry))
                          : config::configs_readme(config::list_configs(*readme), core, all_schemas(registry)))
                     .c_str(),
                 stdout);
      return kDone;
    };
  });
}

}  // namespace pipeline::cli
