#include "core/train/processes/signals.hpp"

#include <atomic>
#include <csignal>

#include <unistd.h>

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

}  // namespace pipeline::train
