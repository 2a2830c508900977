#include "core/cli/verb.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "core/config/core_options.hpp"
#include "core/config/explain.hpp"
#include "core/config/json_schema.hpp"
#include "core/config/readme.hpp"
#include "core/plugins/error.hpp"

namespace pipeline::cli {
namespace {

// Every plugin that is found and loads.
std::vector<const plugins::Plugin*> all_plugins(plugins::Registry& registry) {
  std::vector<const plugins::Plugin*> found;
  for (const plugins::Kind kind : plugins::kKinds)
    for (const std::string& name : registry.names(kind)) {
      try {
        found.push_back(&registry.find(kind, name));
      } catch (const Error&) {  // `pipeline plugins` says why
      }
    }
  return found;
}

int explain(plugins::Registry& registry, const std::string& name) {
  if (name.empty() || name == "core") {
    std::fputs(config::explain(config::core_options()).c_str(), stdout);
    return kDone;
  }
  bool found = false;
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
  if (!found) registry.find(plugins::Kind::kTask, name);  // throws, with what may have been meant
  return kDone;
}

std::vector<config::PluginSchema> all_schemas(plugins::Registry& registry) {
  std::vector<config::PluginSchema> schemas;
  for (const plugins::Plugin* plugin : all_plugins(registry))
    schemas.push_back({.table = std::string(plugins::kind_name(plugin->kind())),
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
  CLI::App* verb = app.add_subcommand("explain", "Lists the options of a plugin, or of the core");
  verb->add_option("NAME", *name, "a plugin, or core (default)");
  verb->add_option("--plugin-path", *paths, "one more folder to look for plugins in")->type_name("FOLDER")->allow_extra_args(false);
  verb->add_flag("--schema", *schema, "print a JSON Schema of configuration files instead, for editors");
  verb->add_option("--readme", *readme, "print a README of the configurations in this folder, with all options")->type_name("FOLDER");
  verb->footer("Examples:\n  pipeline explain summarization\n  pipeline explain core\n  pipeline explain --schema > pipeline.schema.json");
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
