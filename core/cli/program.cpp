#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/base/fail.hpp"
#include "core/base/last_words.hpp"
#include "core/base/program.hpp"
#include "core/base/utf8.hpp"
#include "core/cli/completion.hpp"
#include "core/cli/embedding.h"
#include "core/cli/verb.hpp"
#include "core/config/error.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/process.hpp"
#include "core/launch/rank_env.hpp"
#include "core/plugins/host.hpp"
#include "core/plugins/plugin.hpp"
#include "core/train/session/weights.hpp"

using namespace pipeline;

namespace {

std::string last_error;

// The first line of a problem says that it is one, and where there are many processes, whose; what follows
// explains it.
void print_problem(const std::string& text) {
  const std::string shown = printable(with_shown_paths(text));
  last_error += (last_error.empty() ? "" : "\n") + shown;
  const int rank = launch::rank_in_environment();
  fmt::print(standard_error(), "error: {}{}\n", rank > 0 ? fmt::format("rank {}: ", rank) : "", shown);
}

int report_error(const Error& error) {
  print_problem(error.what());
  return error.code() == PL_ERROR_CONFIG || error.code() == PL_ERROR_UNSUPPORTED
             ? cli::kUsage
             : cli::kFailed;  // the same again would fail again
}

// `python -m torch.distributed.launch` puts its own argument first; it is one of the verb's.
void move_local_rank_behind(std::vector<std::string>& arguments) {
  if (arguments.size() < 2) return;
  const std::string_view first = arguments.front();
  if (first.starts_with("--local-rank=") || first.starts_with("--local_rank="))
    std::rotate(arguments.begin(), arguments.begin() + 1, arguments.end());
}

// Answers the scripts of `pipeline completion`, and scripts/pipeline. The questions are no verbs of the app:
// their arguments are those of other verbs.
bool answer_script(const CLI::App& app, std::string_view question, const std::vector<std::string>& words) {
  if (question == "complete") {
    for (const cli::Candidate& candidate : cli::complete(app, words))
      fmt::print("{}\t{}\n", candidate.text, candidate.help);
  } else if (question == "needs") {
    for (const std::string& target : cli::needed_targets(app, words)) fmt::print("{}\n", target);
  } else {
    return false;
  }
  return true;
}

int run(std::vector<std::string> arguments) {
  move_local_rank_behind(arguments);
  CLI::App app("Trains models from the task, strategy and backend plugins named in a TOML file.", "pipeline");
  app.set_version_flag("--version", PIPELINE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Example:\n  pipeline run configs/summarization.toml\n\nEach verb has --help. Exit codes: 0 done, 1 "
      "failed, 2 wrong usage or configuration, or a run that has diverged,\n75 stopped by a signal, "
      "checkpoint saved: run the same command again.");
  cli::Action action;
  for (cli::AddVerb* const add :
       {cli::add_run,     cli::add_plan,       cli::add_find_lr, cli::add_evaluate, cli::add_predict,
        cli::add_chat,    cli::add_export,     cli::add_gguf,    cli::add_verify,   cli::add_compare,
        cli::add_sweep,   cli::add_report,     cli::add_csv,     cli::add_status,   cli::add_ls,
        cli::add_check,   cli::add_explain,    cli::add_new,     cli::add_plugins,  cli::add_check_plugin,
        cli::add_devices, cli::add_completion, cli::add_man})
    add(app, action);
  if (arguments.size() > 1 && answer_script(app, arguments.front(), {arguments.begin() + 1, arguments.end()}))
    return cli::kDone;
  cli::refuse_unknown_verb(app, arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // as CLI11 takes them
  } catch (const CLI::ParseError& error) {  // which only says that a word was not expected
    if (error.get_exit_code() == 0) return app.exit(error), cli::kDone;  // --help, --version
    cli::refuse_unknown_option(app, arguments);
    const auto verbs = app.get_subcommands();
    const std::string verb = verbs.empty() ? "pipeline" : "pipeline " + verbs.front()->get_name();
    fail(PL_ERROR_CONFIG, "{0}: {1}: see {0} --help", verb, error.what());
  }
  return action();
}

// What a run sets for its libraries is not the caller's: in a notebook the next run would report it as the
// user's.
class KeptEnvironment {
 public:
  KeptEnvironment() = default;
  KeptEnvironment(const KeptEnvironment&) = delete;
  KeptEnvironment& operator=(const KeptEnvironment&) = delete;
  ~KeptEnvironment() {
    for (const auto& [name, value] : launch::own_variables())
      if (!before_.contains(name)) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  launch::Variables before_ = launch::own_variables();
};

void (*data_fingerprint)(pl_task* task, pl_str* out) = nullptr;

}  // namespace

pl_str pipeline_data_fingerprint(pl_task* task) {
  pl_str out{};
  data_fingerprint(task, &out);
  return out;
}

int pipeline_main(int argc, const char* const* argv, const pl_embedding* embedding) {
  const KeptEnvironment kept;
  const StandardStreams streams;
  const int rank = launch::rank_in_environment();
  const LastWords last_words(rank > 0 ? fmt::format("rank {}: ", rank) : "");
  last_error.clear();
  launch::keep_freed_memory();
  launch::raise_file_limit();
  Program started = program();
  started.arguments.assign(argv + 1, argv + argc);
  std::error_code gone;
  started.folder = std::filesystem::current_path(gone);
  if (embedding) {
    started.prefix = embedding->prefix;
    set_python_stacks(embedding->stacks_signal, embedding->stacks_file);
    started.is_shared = embedding->is_shared != 0;
    data_fingerprint = embedding->data_fingerprint;
    started.command.clear();
    for (const char* const* word = embedding->command; *word; ++word) started.command.emplace_back(*word);
  }
  set_program(started);
  try {
    if (embedding && embedding->entry) plugins::Plugin::add(embedding->entry, embedding->file);
    return run(started.arguments);
  } catch (const config::ConfigError& error) {
    for (const std::string& problem : error.problems()) print_problem(problem);
    return cli::kUsage;
  } catch (const Error& error) {
    return report_error(error);
  } catch (const std::filesystem::filesystem_error& error) {
    return report_error(Error(fmt::format("{}: {}", error.path1().string(), error.code().message())));
  } catch (const std::bad_alloc&) {
    const std::string phase = phase_now();
    return report_error(Error(PL_ERROR_OUT_OF_MEMORY,
                              fmt::format("out of memory on the host{}{}: end other programs, or raise the "
                                          "memory limit of this one (ulimit -v, or the batch system's)",
                                          phase.empty() ? "" : " while ", phase)));
  } catch (const std::exception& error) {
    return report_error(Error(error.what()));
  }
}

const char* pipeline_result() {
  static std::string result;
  try {
    result = cli::result_of_run();
  } catch (const std::exception& error) {  // what it left cannot be read
    last_error = error.what();
    result.clear();
  }
  return result.c_str();
}

uint64_t pipeline_step() { return train::step_of_weights; }

const char* pipeline_error() { return last_error.c_str(); }

void pipeline_end() { plugins::shutdown_plugins(); }
