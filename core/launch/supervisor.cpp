#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "core/launch/attempt.hpp"
#include "core/launch/exit_cause.hpp"
#include "core/launch/launch.hpp"
#include "core/launch/process.hpp"

namespace pipeline::launch {
namespace {

// To the console, over a status line that rank 0 may be drawing, and to logs/launch.log once the run has its
// folder.
void say(const HostPlan& plan, const std::string& text) {
  fmt::print(stderr, "{}{}\n", ::isatty(STDERR_FILENO) ? "\r\033[K" : "", text);
  if (!plan.run_dir.empty())
    std::ofstream(plan.run_dir / "logs" / "launch.log", std::ios::app) << text << '\n';
}

}  // namespace

int supervise(const HostPlan& plan, std::vector<std::string> command) {
  if (command.empty()) command = own_command();
  SignalPipe signals;
  const auto tell = [&](const std::string& text) { say(plan, text); };
  for (uint32_t attempt = 0;; ++attempt) {
    Attempt processes(plan, command, attempt, signals, tell);
    const int code = processes.run();
    // Rank 0 says on its own host what was saved; the other hosts' consoles would end without a word.
    if (code == kExitSaved && plan.node_rank > 0) tell("stopped by a signal: run the same command again");
    if (code != kExitFailed || processes.was_signalled() || plan.max_restarts == 0) return code;
    if (attempt == plan.max_restarts) {
      tell(fmt::format("giving up after {} restart{} (launch.max_restarts)", attempt,
                       attempt == 1 ? "" : "s"));
      return code;
    }
    tell(fmt::format("restart {} of {}: starting the processes again, from the last checkpoint", attempt + 1,
                     plan.max_restarts));
  }
}

}  // namespace pipeline::launch
