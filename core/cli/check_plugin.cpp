#include "core/plugins/check/check_plugin.hpp"

#include <cstdio>

#include "core/cli/verb.hpp"

namespace pipeline::cli {

void add_check_plugin(CLI::App& app, Action& action) {
  auto args = std::make_shared<plugins::CheckArgs>();
  auto file = std::make_shared<std::string>();
  auto seconds = std::make_shared<int>(static_cast<int>(args->limit.count()));
  CLI::App* verb = app.add_subcommand("check-plugin", "Checks that a plugin keeps the promises of the ABI, each check in a process of its own");
  verb->add_option("PLUGIN", *file, "the library, NAME.so")->required();
  verb->add_option("--config", args->config, "a configuration whose table for this plugin is used; needed where an option is required")
      ->type_name("FILE");
  verb->add_option("--set", args->sets, "KEY=VALUE over what the file says; may be repeated")->type_name("KEY=VALUE")->allow_extra_args(false);
  verb->add_option("--limit", *seconds, "seconds that one check may take")->type_name("SECONDS")->check(CLI::PositiveNumber);
  verb->footer("Example:\n  pipeline check-plugin my-plugins/tasks/my_task.so --config my_task.toml");
  verb->callback([=, &action] {
    action = [=]() -> int {
      args->plugin = *file;
      args->limit = std::chrono::seconds(*seconds);
      // At once, also into a pipe: a check may take minutes, and one that hangs should not be guessed.
      const auto print = [](const std::string& line) {
        std::puts(line.c_str());
        std::fflush(stdout);
      };
      return plugins::check_plugin(*args, print).passed() ? kDone : kFailed;
    };
  });
}

}  // namespace pipeline::cli
