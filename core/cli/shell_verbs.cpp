// The verbs that make the program known to a shell and to man.
#include <cstdio>

#include <fmt/format.h>

#include "core/cli/completion.hpp"
#include "core/cli/verb.hpp"

namespace pipeline::cli {

void add_completion(CLI::App& app, Action& action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb =
      app.add_subcommand("completion", "Prints a script that completes this program's arguments");
  verb->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->footer(
      "Examples, for the shell that runs:\n  source <(pipeline completion bash)\n  source <(pipeline "
      "completion "
      "zsh)\n  pipeline completion fish | source\n\nVerbs, options, files, the keys and values of --set, "
      "stages "
      "and plugins are completed.");
  when_chosen(*verb, action, [=] {
    std::fputs(completion_script(*shell).c_str(), stdout);
    return kDone;
  });
}

void add_man(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("man", "Prints the manual page");
  verb->footer("Example:\n  pipeline man | man -l -");
  when_chosen(*verb, action, [&app] {
    std::fputs(manual(app).c_str(), stdout);
    return kDone;
  });
}

}  // namespace pipeline::cli
