// One rank as a child process: its start, and what its end means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/launch/signal_pipe.hpp"
#include "core/launch/variables.hpp"

namespace pipeline::launch {

struct ProcessArgs {
  const std::vector<std::string>& command;  // the first is the program's path
  const Variables& environment;             // all of it
  int output = -1;                          // where stdout and stderr go; -1: where this process's go
  int kept_open = -1;                       // a descriptor that the child inherits; -1: none
  const SignalPipe& signals;
};

// The child dies with the thread that starts it, reads nothing, and is in a process group of its own: a key
// press on the terminal reaches this process only, which passes it on. Throws Error if there can be no more
// processes.
pid_t start_process(const ProcessArgs& args);

// As many open files as the system allows: shells give 1,024, which ranks and mapped data together may need.
void raise_file_limit();

// This program and its command line, as a command for start_process().
std::vector<std::string> own_command();

inline constexpr int kExitFinished = 0, kExitFailed = 1, kExitConfig = 2, kExitSaved = 75;

// From the mildest to what overrides all others. saved: on request; peer_failed: because of another one;
// config: all ranks alike.
enum class Verdict { finished, saved, peer_failed, config, failed };

Verdict judge(int wait_status);
int code_of(Verdict verdict);  // that a process exits with

// "was killed by SIGKILL (...)", "exited with code 1". `oom_kills_before`: oom_kills() when the process was
// started.
std::string describe_end(int wait_status, uint64_t oom_kills_before);

// How many processes the kernel's out-of-memory killer has ended on this machine; 0 where it does not tell.
uint64_t oom_kills();

std::string signal_name(int signal);  // "SIGKILL"

}  // namespace pipeline::launch
