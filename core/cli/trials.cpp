#include "core/cli/trials.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <memory>

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

// A part of a trial, in a process of its own.
class Part {
 public:
  // Runs the trial to `until`, or to its end if that is 0.
  Part(Trial& trial, uint64_t until, launch::Variables environment, launch::SignalPipe& signals)
      : trial_(trial), until_(until), log_(trial.folder.string() + ".log") {
    on_disk("choose another --dir", [&] { fs::create_directories(trial.folder.parent_path()); });
    const Descriptor output(::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (!output) throw write_error(log_, errno, "choose another --dir");
    std::vector<std::string> command = program().command;
    command.emplace_back("run");
    command.insert(command.end(), trial.arguments.begin(), trial.arguments.end());
    child_ = launch::start_process(
        {.command = command, .environment = environment, .output = output.fd(), .signals = signals});
  }

  // One that is left, as something else has failed, saves what it has.
  ~Part() {
    if (has_ended_) return;
    ::kill(child_, SIGTERM);
    ::waitpid(child_, &status_, 0);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  // Stops it when it has come far enough. False: it has ended.
  bool goes_on() {
    has_ended_ = ::waitpid(child_, &status_, WNOHANG) != 0;
    if (has_ended_) return false;
    steps_ = steps_done(trial_.folder);
    if (until_ > 0 && !stopping_ && steps_ >= until_) {
      stopping_ = true;
      ::kill(child_, SIGTERM);
    }
    return true;
  }
  void pass_on(int signal) {
    signalled_ = true;
    ::kill(child_, signal);
  }
  // Keeps in the trial how it has ended, and returns it for people.
  std::string end() {
    trial_.code = launch::code_of(launch::judge(status_));
    // The trial did as it was told, or was done before it was told.
    const bool as_told = trial_.code == launch::kExitSaved ||
                         (stopping_ && report::state_of(trial_.folder) == report::RunState::finished);
    if (as_told && !signalled_) trial_.code = 0;
    if (trial_.code == 0) return fmt::format("at step {}", steps_done(trial_.folder));
    trial_.problem = fmt::format("{}; see {}", launch::describe_end(status_, 0), log_);
    return fmt::format("{}; the end of it:\n{}", trial_.problem, last_line(log_));
  }
  uint64_t steps() const { return steps_; }  // when it was last looked at
  const Trial& trial() const { return trial_; }

 private:
  Trial& trial_;
  uint64_t until_, steps_ = 0;
  std::string log_;
  pid_t child_ = -1;
  int status_ = 0;
  bool stopping_ = false, signalled_ = false, has_ended_ = false;
};

}  // namespace

bool run_parts(const std::vector<Trial*>& trials, uint64_t until, const std::vector<std::string>& places,
               const std::string& what, launch::SignalPipe& signals, observe::Console& console) {
  std::vector<std::unique_ptr<Part>> running(places.size());
  bool signalled = false;
  for (size_t next = 0;;) {
    for (size_t place = 0; place < places.size(); ++place) {
      while (!running[place] && !signalled && next < trials.size()) {
        Trial& trial = *trials[next++];
        if (until > 0 && steps_done(trial.folder) >= until) continue;
        launch::Variables environment = launch::own_variables();
        if (!places[place].empty()) environment["CUDA_VISIBLE_DEVICES"] = places[place];
        running[place] = std::make_unique<Part>(trial, until, std::move(environment), signals);
      }
    }
    const auto first = std::ranges::find_if(running, [](const auto& part) { return part != nullptr; });
    if (first == running.end()) break;
    pollfd ready{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, kLookMilliseconds);
    for (const int signal : signals.take()) {
      if (signal == SIGCHLD) continue;
      signalled = true;
      for (const auto& part : running)
        if (part) part->pass_on(signal);
    }
    const auto count = std::ranges::count_if(running, [](const auto& part) { return part != nullptr; });
    console.progress(fmt::format("{}, {}{}, steps", what, (*first)->trial().name,
                                 count > 1 ? fmt::format(" and {} more", count - 1) : ""),
                     (*first)->steps(), (*first)->trial().steps);
    for (auto& part : running) {
      if (!part || part->goes_on()) continue;
      console.status({});
      console.line(fmt::format("{}, {}: {}", what, part->trial().name, part->end()));
      part.reset();
    }
  }
  for (const int signal : signals.take()) signalled |= signal != SIGCHLD;
  return !signalled;
}

bool run_in_turns(std::vector<Trial>& trials, unsigned rounds, observe::Console& console) {
  launch::SignalPipe signals;
  for (unsigned round = 1; round <= rounds; ++round)
    for (Trial& trial : trials) {
      const bool last = round == rounds;
      if (trial.code != 0 || (!last && trial.steps == 0)) continue;
      if (!run_parts({&trial}, last ? 0 : trial.steps * round / rounds, {""},
                     fmt::format("round {}/{}", round, rounds), signals, console))
        return false;
    }
  return true;
}

}  // namespace pipeline::cli
