#include "core/cli/verb.hpp"

namespace pipeline::cli {

void add_run(CLI::App& app, Action& action) {
  auto args = std::make_shared<ConfigArgs>();
  auto fresh = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("run", "Trains what the configuration says, or goes on with it where it stopped");
  args->add_to(*verb);
  args->add_launch_to(*verb);
  verb->add_flag("--fresh", *fresh, "start over; the older run in run.dir is moved aside, not deleted");
  verb->footer("Example:\n  pipeline run configs/summarization.toml --set train.max_steps=20 --set run.dir=runs/try\n\n"
               "The same command again continues the run. Ctrl-C saves a checkpoint and leaves with exit code 75;\n"
               "a second Ctrl-C leaves at once.");
  verb->callback([=, &action] {
    action = [=] {
      return with_workspace(*args, false, [&](const train::Workspace& w) { return train::run_stages(w, *fresh); });
    };
  });
}

}  // namespace pipeline::cli
