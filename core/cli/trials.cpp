#include "core/cli/trials.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include <fmt/format.h>

#include "core/base/descriptor.hpp"
#include "core/base/files.hpp"
#include "core/base/program.hpp"
#include "core/launch/process.hpp"
#include "core/launch/rank_env.hpp"
#include "core/report/run_record.hpp"

namespace pipeline::cli {
namespace {

namespace fs = std::filesystem;
constexpr int kLookMilliseconds = 50;

// The whole lines at the end of a file; empty if there is none.
std::string tail_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  constexpr std::streamoff kTail = 1 << 16;
  const std::streamoff size = file.tellg(), from = std::max<std::streamoff>(0, size - kTail);
  std::string tail(static_cast<size_t>(size - from), '\0');
  file.seekg(from).read(tail.data(), static_cast<std::streamsize>(tail.size()));
  tail.resize(tail.rfind('\n') + 1);
  return tail;
}

std::string last_line(const fs::path& path) {
  std::string tail = tail_of(path);
  while (tail.ends_with('\n')) tail.pop_back();
  return tail.substr(tail.rfind('\n') + 1);
}

// The steps that a trial has done, by metrics.jsonl; 0: none yet.
uint64_t steps_done(const fs::path& folder) {
  const std::string tail = tail_of(folder / "metrics.jsonl");
  constexpr std::string_view kStep = R"({"step":)";
  const size_t at = tail.rfind(kStep);
  return at == std::string::npos ? 0 : std::strtoull(tail.c_str() + at + kStep.size(), nullptr, 10);
}

// Runs the trial to `until`, or to its end if that is 0. False if a signal ended it.
bool run_part(Trial& trial, uint64_t until, launch::SignalPipe& signals, observe::Console& console,
              const std::string& what) {
  if (until > 0 && steps_done(trial.folder) >= until) return true;
  on_disk("choose another --dir", [&] { fs::create_directories(trial.folder.parent_path()); });
  const std::string log = trial.folder.string() + ".log";
  const Descriptor output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!output) throw write_error(log, errno, "choose another --dir");
  std::vector<std::string> command = program().command;
  command.emplace_back("run");
  command.insert(command.end(), trial.arguments.begin(), trial.arguments.end());
  const launch::Variables environment = launch::own_variables();
  const pid_t child = launch::start_process(
      {.command = command, .environment = environment, .output = output.fd(), .signals = signals});
  bool stopping = false, signalled = false;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    pollfd ready{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, kLookMilliseconds);
    for (const int signal : signals.take()) {
      if (signal == SIGCHLD) continue;
      signalled = true;
      ::kill(child, signal);
    }
    const uint64_t done = steps_done(trial.folder);
    console.progress(what + ", steps", done, trial.steps);
    if (until == 0 || done < until || stopping) continue;
    stopping = true;
    ::kill(child, SIGTERM);
  }
  console.status({});
  trial.code = launch::code_of(launch::judge(status));
  // The trial did as it was told, or was done before it was told.
  const bool as_told = trial.code == launch::kExitSaved ||
                       (stopping && report::state_of(trial.folder) == report::RunState::finished);
  if (as_told && !signalled) trial.code = 0;
  if (trial.code != 0) trial.problem = fmt::format("{}; see {}", launch::describe_end(status, 0), log);
  console.line(what + ": " +
               (trial.code == 0 ? fmt::format("at step {}", steps_done(trial.folder))
                                : fmt::format("{}; the end of it:\n{}", trial.problem, last_line(log))));
  return !signalled;
}

}  // namespace

bool run_in_turns(std::vector<Trial>& trials, unsigned rounds, observe::Console& console) {
  launch::SignalPipe signals;
  for (unsigned round = 1; round <= rounds; ++round)
    for (Trial& trial : trials) {
      const bool last = round == rounds;
      if (trial.code != 0 || (!last && trial.steps == 0)) continue;
      const uint64_t until = last ? 0 : trial.steps * round / rounds;
      if (!run_part(trial, until, signals, console,
                    fmt::format("round {}/{}, {}", round, rounds, trial.name)))
        return false;
    }
  return true;
}

}  // namespace pipeline::cli
