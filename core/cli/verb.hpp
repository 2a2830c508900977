// What the verbs of the command line have in common. Each adds its subcommand with add_NAME.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/socket.hpp"
#include "core/config/config.hpp"
#include "core/launch/launch.hpp"
#include "core/observe/console.hpp"
#include "core/observe/log.hpp"
#include "core/plugins/registry.hpp"
#include "core/train/stages/stages.hpp"

namespace pipeline::cli {

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kInterrupted = 75 };

// The verb that was chosen, to be run after parsing; returns the exit code.
using Action = std::function<int()>;
// Makes `work` the action where `verb` is the one that was chosen.
inline void when_chosen(CLI::App& verb, Action& action, Action work) {
  verb.callback([&action, work = std::move(work)] { action = work; });
}

// Prints to standard output; control characters in names from outside do not reach the terminal.
void print(std::string_view text);

// Numbers from `least` (`open`: above it); CLI11's own checks show the limits of a double.
CLI::Validator at_least(double least, bool open = false);

// An option that may be given several times, each time with one value.
inline void add_repeated(CLI::App& verb, const char* name, std::vector<std::string>& values, const char* what,
                         const char* help) {
  verb.add_option(name, values, help)->type_name(what)->allow_extra_args(false);
}

// Adds --checkpoint.
void add_checkpoint(CLI::App& verb, train::VerbArgs& args);
// Adds --average and --ema.
void add_means(CLI::App& verb, train::VerbArgs& args);

// The arguments of verbs that work on a configuration.
struct ConfigArgs {
  std::string file;
  std::vector<std::string> sets, changes;
  std::string stage;
  std::vector<std::string> plugin_paths;
  launch::LaunchFlags launch;

  // Adds FILE, --set, --stage and --plugin-path. `takes_model`: FILE may be a model folder, see
  // take_model_folder().
  void add_to(CLI::App& verb, bool takes_model = false);
  // Adds --nodes, --node-rank, --master-address and --master-port.
  void add_launch_to(CLI::App& verb);
  config::Config load() const;
  // The same as words of a command line, behind the verb.
  std::vector<std::string> words() const;
  // Loads for a verb that needs the task: where that is Python's, this process goes on as Python.
  config::Config load_for_task() const;
};

// Where the task of a stage is a class in a Python file, starts Python in place of this process, with the
// same command line: it loads this program as a library. Returns if no task is, or if this process is Python
// already.
void go_on_as_python(const config::Config& config);
// Goes on as Python where `name` is a task's file, FILE.py or FILE.py:Class. Returns the file in any case.
std::string go_on_as_python(const std::string& name);
// Goes on as Python, with this command, which begins with the interpreter. `named_by`, for the error:
// "task.python = ", or nothing.
[[noreturn]] void become_python(std::vector<std::string> command, std::string_view named_by = {});
// The interpreter that a wheel's `pipeline` is installed in, that the user is in, or the first of PATH.
std::string default_interpreter();
// The options that every task in Python has.
std::string about_python_tasks();

// A verb's registry: folders from the command line, the configuration, the environment and beside the
// program.
plugins::Registry make_registry(const std::vector<std::string>& command_line,
                                const std::vector<std::string>& config_paths);

// Rank 0's place in the run that would be started, for checking its plans. Throws what is wrong with the
// environment or the flags.
World planned_world(const launch::LaunchRequest& request);
World planned_world(const ConfigArgs& args, const config::Config& config);

// While it lives, standard error shows for how long `what` has been going on: standard output is for what the
// verb prints.
class Working {
 public:
  explicit Working(std::string what) : elapsed_(console_, std::move(what)) {}

 private:
  observe::Console console_{observe::Console::Mode::automatic, standard_error()};
  const observe::Elapsed elapsed_;
};

// observe.serve; nullopt: nothing is served. Throws ConfigError for what is no address.
std::optional<HostPort> serve_address(const config::Config& config);

// Loads the configuration, finds this process's place among those of the run (or starts them), makes console,
// log and registry, and runs `work` with them under the signal handlers. `one_process`: the verb has no use
// for several.
int with_workspace(const ConfigArgs& args, bool one_process,
                   const std::function<train::Outcome(const train::Workspace&)>& work);

// The types that a GGUF file is written in.
inline const std::vector<std::string> kGgufTypes{"f32",  "f16",  "bf16", "q8_0",
                                                 "q5_1", "q5_0", "q4_1", "q4_0"};
// Go on as `pipeline gguf` and `pipeline verify`. verb_args.output: what was exported, empty: the run's
// export. `gguf`: a type that it is written in first; empty: none.
[[noreturn]] void write_gguf(const std::string& folder, const std::string& type);
[[noreturn]] void verify_export(const ConfigArgs& args, const train::VerbArgs& verb_args,
                                uint64_t samples = 4, const std::string& gguf = {});

// What pipeline_result() of embedding.h returns.
std::string result_of_run();

// Each adds the verb of its name.
using AddVerb = void(CLI::App& app, Action& action);
AddVerb add_run, add_find_lr, add_plan, add_evaluate, add_predict, add_chat, add_export, add_gguf, add_verify,
    add_compare, add_sweep, add_report, add_csv, add_status, add_ls, add_check, add_explain, add_new,
    add_plugins, add_check_plugin, add_devices, add_completion, add_man;

// The model folder of another tool in place of a configuration: `pipeline predict models/esm2`.

// Whether a verb takes `file` for a model folder of another tool, or for a PEFT adapter.
bool is_model_folder(const std::string& file);

// Where FILE is a model folder, its weights are used; where it is an adapter, those of its model, and the
// adapter. The task is the one of --set task.plugin, else "chat" if that takes such models, else the only one
// that does. Results go to runs/NAME-model, by the folder's name, where no --set says otherwise. Throws Error
// where no task or several take it, or FILE is what people put in place of a model's folder.
void take_model_folder(ConfigArgs& args, train::VerbArgs& verb_args);

// Whether the model's config.json describes parts, such as a vision encoder: it is no language model alone.
bool has_parts(const std::string& folder);

}  // namespace pipeline::cli
