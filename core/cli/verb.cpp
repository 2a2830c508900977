#include "core/cli/verb.hpp"

#include "core/train/signals.hpp"

namespace pipeline::cli {

void ConfigArgs::add_to(CLI::App& verb) {
  verb.add_option("FILE", file, "the configuration, a TOML file")->required();
  verb.add_option("--set", sets, "KEY=VALUE over what the file says, as in --set train.max_steps=20; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb.add_option("--stage", stage, "only this [[stage]]")->type_name("NAME");
  verb.add_option("--plugin-path", plugin_paths, "one more folder to look for plugins in; may be repeated")
      ->type_name("FOLDER")
      ->allow_extra_args(false);
}

plugins::Registry make_registry(const std::vector<std::string>& command_line, const std::vector<std::string>& config_paths,
                                plugins::Registry::Note note) {
  std::vector<plugins::SearchFolder> given;
  for (const std::string& path : command_line) given.push_back({path, "--plugin-path"});
  for (const std::string& path : config_paths) given.push_back({path, "plugins.paths"});
  return {plugins::search_folders(given), std::move(note)};
}

int with_workspace(const ConfigArgs& args, const std::function<train::Outcome(const train::Workspace&)>& work) {
  const train::Signals signals;
  const config::Config config = args.load();
  const std::string& mode = config.get_string("observe.console");
  observe::Console console(mode == "off"     ? observe::Console::Mode::off
                           : mode == "plain" ? observe::Console::Mode::plain
                                             : observe::Console::Mode::automatic);
  const std::string& level = config.get_string("observe.log_level");
  observe::Log log(console, level == "debug"     ? observe::Level::debug
                            : level == "warning" ? observe::Level::warning
                            : level == "error"   ? observe::Level::error
                                                 : observe::Level::info);
  plugins::Registry registry =
      make_registry(args.plugin_paths, config.get_path_list("plugins.paths"), [&](const std::string& line) { log.info(line); });
  try {
    return work({.config = config, .registry = registry, .log = log}) == train::Outcome::finished ? kDone : kInterrupted;
  } catch (const std::exception& error) {
    console.status({});
    log.file_only(std::string("error: ") + error.what());
    throw;
  }
}

}  // namespace pipeline::cli
