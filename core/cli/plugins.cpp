#include "core/cli/verb.hpp"

#include <fmt/format.h>

namespace pipeline::cli {

void add_plugins(CLI::App& app, Action& action) {
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand("plugins", "Lists the plugins that are found, and what is wrong with those that do not load");
  verb->add_option("--plugin-path", *paths, "one more folder to look in")->type_name("FOLDER")->allow_extra_args(false);
  verb->footer("Example:\n  PIPELINE_PLUGIN_PATH=my-plugins pipeline plugins");
  verb->callback([=, &action] {
    action = [=] {
      const plugins::Registry registry = make_registry(*paths, {}, [](const std::string& line) { fmt::print("{}\n", line); });
      for (const plugins::Listing& entry : registry.list()) {
        fmt::print("{:<9} {:<16} {:<8} {}\n", entry.kind.empty() ? "?" : entry.kind, entry.name, entry.version, entry.summary);
        fmt::print("{:36}{}\n", "", entry.path.string());
        if (!entry.problem.empty()) fmt::print("{:36}problem: {}\n", "", entry.problem);
      }
      fmt::print("\nlooked in, first one wins:\n");
      for (const plugins::SearchFolder& folder : registry.folders()) fmt::print("  {} ({})\n", folder.path.string(), folder.origin);
      return kDone;
    };
  });
}

}  // namespace pipeline::cli
