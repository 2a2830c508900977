// A task in Python: a class of the user's, in the user's own Python. Python is then the process, and this
// program a library in it.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/cli/verb.hpp"
#include "core/plugins/plugin.hpp"

namespace pipeline::cli {
namespace {

struct PythonTask {
  std::string file, of_class;  // of_class: empty where the file has one
  std::string interpreter;
  bool operator==(const PythonTask&) const = default;
};

std::optional<PythonTask> python_task(const config::Config& stage) {
  if (stage.options().plugins.task != plugins::kPythonTask) return std::nullopt;
  // A run's own config.toml has all options, those that are not set as "".
  const std::string file = stage.unchecked_string("task.file", true);
  std::string interpreter = stage.unchecked_string("task.python", false);
  if (interpreter.empty())
    interpreter = default_interpreter();
  else if (interpreter.find('/') != std::string::npos)
    interpreter = stage.unchecked_string("task.python", true);
  if (file.empty())
    fail(PL_ERROR_CONFIG,
         "{}: task.file is required with task.plugin = \"python\": the Python file that has the task's class",
         stage.file());
  return PythonTask{
      .file = file, .of_class = stage.unchecked_string("task.class", false), .interpreter = interpreter};
}

[[noreturn]] void become(const PythonTask& task) {
  std::vector<std::string> command{task.interpreter, program().prefix / "lib/pipeline/python",
                                   "--task=" + task.file, "--class=" + task.of_class};
  command.insert(command.end(), program().arguments.begin(), program().arguments.end());
  become_python(std::move(command), "task.python = ");
}

}  // namespace

void become_python(std::vector<std::string> command, std::string_view named_by) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  fail(PL_ERROR_CONFIG,
       "{}{}: cannot be started: {}; name the Python that has your packages, or activate its environment",
       named_by, command.front(), std::strerror(errno));
}

std::string default_interpreter() {
  if (const char* given = std::getenv("PIPELINE_PYTHON"); given && *given) return given;
  const char* environment = std::getenv("VIRTUAL_ENV");
  return environment && *environment ? std::string(environment) + "/bin/python" : "python3";
}

void go_on_as_python(const config::Config& config) {
  if (plugins::Plugin::in_process(plugins::Kind::kTask, plugins::kPythonTask)) return;
  std::optional<PythonTask> named;
  for (const config::Config& stage : train::stages_of(config)) {
    const std::optional<PythonTask> task = python_task(stage);
    if (!task) continue;
    if (named && *named != *task)
      fail(PL_ERROR_CONFIG,
           "{}: the stages' tasks are in {} and in {}: one run has one Python file, class and interpreter; "
           "run the stages apart, with --stage",
           config.file(), named->file, task->file);
    named = task;
  }
  if (named) become(*named);
}

std::string go_on_as_python(const std::string& name) {
  const size_t colon = name.rfind(".py:");
  const std::string file = colon == name.npos ? name : name.substr(0, colon + 3);
  if (file.ends_with(".py") && !plugins::Plugin::in_process(plugins::Kind::kTask, plugins::kPythonTask))
    become({.file = from_start(file),
            .of_class = colon == name.npos ? "" : name.substr(colon + 4),
            .interpreter = default_interpreter()});
  return file;
}

std::string about_python_tasks() {
  return "task python: a class in a Python file of yours, which derives from pipeline.Task\n\n"
         "[task]\n"
         "plugin  \"python\"\n"
         "file    path    required  the Python file that has the task's class\n"
         "class   string            the class; needed where the file has several\n"
         "python  string            the Python to run it with, a path or a name in PATH; default: of "
         "VIRTUAL_ENV, or python3\n\n"
         "and the fields of the class's Options: pipeline explain my_task.py\n"
         "A task to begin with: pipeline new task my_task --language python\n";
}

}  // namespace pipeline::cli
