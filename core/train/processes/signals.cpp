#include "core/train/processes/signals.hpp"

#include <atomic>
#include <chrono>
#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/last_words.hpp"
#include "core/base/program.hpp"
#include "core/base/thread.hpp"
#include "core/launch/process.hpp"

namespace pipeline::train {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
std::atomic<int> first_signal{0};
std::atomic<int> from_supervisor{0}, direct{0};  // how many
pid_t supervisor = 0;                            // 0: none
static_assert(std::atomic<int>::is_always_lock_free, "a handler must not wait");
struct sigaction previous[std::size(kSignals)], previous_pipe, previous_limit;
std::atomic<bool> are_ignored{false}, is_heard{false};
std::atomic<int> saves{0};

void on_signal(int signal, siginfo_t* info, void*) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  const bool passed_on = supervisor != 0 && info->si_pid == supervisor;
  if ((passed_on ? from_supervisor : direct).fetch_add(1) == 0) return;
  static constexpr char kText[] = "\nsecond signal: leaving at once, without a checkpoint\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(128 + signal);
}

constexpr auto kLook = std::chrono::milliseconds(100);
constexpr int kLooks = 15;  // in a row that find it unheard
constexpr int kInterrupted = 75;

}  // namespace

Signals::Signals(bool supervised) {
  first_signal = from_supervisor = direct = 0;
  are_ignored = is_heard = false;
  supervisor = supervised ? ::getppid() : 0;
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous[i]);
    const bool hung_up_on_purpose =
        kSignals[i] == SIGHUP && previous[i].sa_handler == SIG_IGN;  // under nohup
    if (!hung_up_on_purpose) ::sigaction(kSignals[i], &action, nullptr);
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &previous_pipe);
  ::sigaction(SIGXFSZ, &ignore, &previous_limit);
}

Signals::~Signals() {
  if (are_ignored) return;
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
  ::sigaction(SIGPIPE, &previous_pipe, nullptr);
  ::sigaction(SIGXFSZ, &previous_limit, nullptr);
}

void Signals::ignore(bool for_good) {
  are_ignored = for_good;
  is_heard = true;
  for (const int signal : kSignals) ::signal(signal, SIG_IGN);
}

int Signals::received() { return first_signal.load(std::memory_order_relaxed); }

Signals::Saves::Saves() { ++saves; }
Signals::Saves::~Saves() { --saves; }
void Signals::hear() { is_heard = true; }
bool Signals::is_unheard() { return received() != 0 && saves == 0 && !is_heard; }
bool Signals::is_awaited() { return received() != 0 && saves != 0 && !is_heard; }

std::string Signals::name(int signal) { return launch::signal_name(signal); }

UnheardStop::UnheardStop(observe::Log& log)
    : log_(log), ticker_("pl-unheard", kLook, [this] { return look(); }) {}

bool UnheardStop::look() {
  const bool awaited = Signals::is_awaited();
  looks_ = Signals::is_unheard() || awaited ? looks_ + 1 : 0;
  if (looks_ < kLooks) return true;
  const bool stays = awaited || program().is_shared;
  if (!stays) ::alarm(2);  // the log's disk may hang, too
  log_.console().status({});
  log_.info(
      fmt::format("{}: {}", Signals::name(Signals::received()),
                  awaited ? fmt::format("waiting for the end of {}, to save it; a second signal "
                                        "leaves at once, without a checkpoint",
                                        phase_now())
                  : stays ? "what goes on has not heard of it; a second signal ends the whole "
                            "process, which is a notebook's"
                          : "stopped at once: the work under way would not have ended soon, and had nothing "
                            "to save"));
  log_.flush();
  if (!stays) ::_exit(kInterrupted);
  return false;
}

}  // namespace pipeline::train
