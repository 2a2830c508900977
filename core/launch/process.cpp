#include "core/launch/process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/fail.hpp"
#include "core/base/program.hpp"
#include "core/launch/launch.hpp"

namespace pipeline::launch {
namespace {

constexpr int kCannotStart = 127;  // as shells have it

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (std::string& string : strings) all.push_back(string.data());
  all.push_back(nullptr);
  return all;
}

// Runs in the child, where other threads may have held any lock: system calls only.
[[noreturn]] void become(const ProcessArgs& args, const char* folder, pid_t parent, const sigset_t& mask,
                         char* const* argv, char* const* envp) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotStart);  // the parent died before the line above
  ::setpgid(0, 0);
  args.signals.restore();
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::signal(SIGTTOU, SIG_IGN);  // or `stty tostop` would stop rank 0 at its first line, in the background
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  if (args.output >= 0) {
    ::dup2(args.output, STDOUT_FILENO);
    ::dup2(args.output, STDERR_FILENO);
  }
  if (args.kept_open >= 0) ::fcntl(args.kept_open, F_SETFD, 0);
  [[maybe_unused]] const int inherited = ::chdir(folder);  // if it is gone: the folder of this process
  ::execve(argv[0], argv, envp);
  static constexpr char kText[] = "error: cannot start a process of the run\n";
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(kCannotStart);
}

const char* hint(int signal, uint64_t oom_kills_before) {
  if (signal == SIGKILL && oom_kills() > oom_kills_before)
    return " (the kernel's out-of-memory killer was at work meanwhile, see dmesg: the machine or its memory "
           "limit is too small for the run)";
  if (signal == SIGKILL)
    return " (often the kernel's out-of-memory killer: see dmesg; or a limit of the batch system, or kill "
           "-9)";
  if (signal == SIGBUS) return " (often a disk or /dev/shm that is full)";
  return "";
}

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

pid_t start_process(const ProcessArgs& args) {
  std::vector<std::string> command = args.command, environment;
  for (const auto& [name, value] : args.environment) environment.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers(command), envp = pointers(environment);
  const std::string folder = start_folder();
  const pid_t parent = ::getpid();
  // A signal that came before the child's handlers are its own would go into this process's pipe.
  sigset_t all, mask;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &mask);
  const pid_t child = ::fork();
  if (child == 0) become(args, folder.c_str(), parent, mask, argv.data(), envp.data());
  const int error = errno;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  errno = error;
  if (child < 0) fail("cannot start a process: {}", std::strerror(errno));
  ::setpgid(child, child);  // whoever is first
  return child;
}

void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // a failure leaves it as it was
}

std::vector<std::string> own_command() {
  std::vector<std::string> command = program().command;
  command.insert(command.end(), program().arguments.begin(), program().arguments.end());
  return command;
}

int code_of(Verdict verdict) {
  static constexpr int kCodes[] = {kExitFinished, kExitSaved,  kPeerFailed,
                                   kPeerRefused,  kExitConfig, kExitFailed};
  return kCodes[static_cast<size_t>(verdict)];
}

Verdict judge(int wait_status) {
  if (WIFEXITED(wait_status))
    for (const Verdict verdict :
         {Verdict::finished, Verdict::saved, Verdict::peer_failed, Verdict::peer_refused, Verdict::config})
      if (WEXITSTATUS(wait_status) == code_of(verdict)) return verdict;
  return Verdict::failed;
}

std::string describe_end(int wait_status, uint64_t oom_kills_before) {
  if (WIFEXITED(wait_status)) return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
  const int signal = WTERMSIG(wait_status);
  return fmt::format("was killed by {}{}{}", signal_name(signal), hint(signal, oom_kills_before),
                     WCOREDUMP(wait_status) ? "; it left a core dump" : "");
}

uint64_t oom_kills() {
  std::ifstream in("/proc/vmstat");
  uint64_t count = 0;
  for (std::string name; in >> name >> count;)
    if (name == "oom_kill") return count;
  return 0;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : fmt::format("signal {}", signal);
}

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
