#include "core/launch/exit_cause.hpp"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>

#include "core/launch/launch.hpp"

namespace pipeline::launch {
namespace {

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

}  // namespace

Verdict judge(int wait_status) {
  if (!WIFEXITED(wait_status)) return Verdict::failed;
  switch (WEXITSTATUS(wait_status)) {
    case kExitFinished:
      return Verdict::finished;
    case kExitSaved:
      return Verdict::saved;
    case kPeerFailed:
      return Verdict::peer_failed;
    case kExitConfig:
      return Verdict::config;
    default:
      return Verdict::failed;
  }
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

}  // namespace pipeline::launch
