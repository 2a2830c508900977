#include "core/launch/signal_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iterator>

namespace pipeline::launch {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP, SIGCHLD};
struct sigaction previous[std::size(kSignals)], previous_pipe;
volatile int write_end = -1;

void on_signal(int signal) {
  const int error = errno;
  const char byte = static_cast<char>(signal);
  // A full pipe holds thousands of signals: one more changes nothing.
  [[maybe_unused]] const auto ignored = ::write(write_end, &byte, 1);
  errno = error;
}

}  // namespace

SignalPipe::SignalPipe() {
  for (const Descriptor* end : {&pipe_.out, &pipe_.in}) ::fcntl(end->fd(), F_SETFL, O_NONBLOCK);
  write_end = pipe_.in.fd();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous[i]);
    const bool may_be_ignored = kSignals[i] == SIGHUP || kSignals[i] == SIGTSTP;  // nohup, no job control
    const bool ignored_on_purpose = may_be_ignored && previous[i].sa_handler == SIG_IGN;
    if (!ignored_on_purpose) ::sigaction(kSignals[i], &action, nullptr);
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &previous_pipe);
}

SignalPipe::~SignalPipe() {
  restore();
  write_end = -1;
}

void SignalPipe::restore() const {
  for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
  ::sigaction(SIGPIPE, &previous_pipe, nullptr);
}

std::vector<int> SignalPipe::take() {
  std::vector<int> signals;
  char byte = 0;
  while (::read(descriptor(), &byte, 1) == 1) signals.push_back(byte);
  return signals;
}

}  // namespace pipeline::launch
