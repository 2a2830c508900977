#include "core/cli/verb.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "core/observe/log.hpp"
#include "core/train/session.hpp"
#include "core/train/stages.hpp"
#include "core/train/unused_options.hpp"
#include "core/train/workspace.hpp"

namespace pipeline::cli {

void add_check(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto verbose = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("check", "Checks a configuration and its plugins' options, without data and without training");
  args->add_to(*verb);
  args->add_launch_to(*verb);
  verb->add_flag("-v,--verbose", *verbose, "print the configuration in force, with where each value comes from");
  verb->footer("Example:\n  pipeline check configs/summarization.toml -v");
  verb->callback([=, &action] {
    action = [=] {
      const config::Config config = args->load();
      train::run_dir(config);
      train::check_stages(config);
      const World world = planned_world(*args, config);
      observe::Console console(observe::Console::Mode::plain);
      observe::Log log(console, observe::Level::info);
      plugins::Registry registry =
          make_registry(args->plugin_paths, config.get_path_list("plugins.paths"), [&](const std::string& line) { log.info(line); });
      for (const config::Config& stage : train::stages_of(config)) {
        train::Session session(stage, registry, log, {.purpose = train::purpose_of_stage(stage), .run_dir = {}, .cancelled = {}, .world = world, .team = nullptr});
        session.check_task();
        if (session.args().purpose == PL_PURPOSE_TRAIN) train::warn_of_unused_options(session);
        if (config.has_stages()) console.line(fmt::format("# stage {}", stage.get_string("stage.name")));
        if (*verbose) console.line(session.resolved_toml());
      }
      console.line(fmt::format("{}: in order", config.file()));
      return kDone;
    };
  });
}

}  // namespace pipeline::cli
