// One rank as a child process: how it starts, and what its end means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/launch/signal_pipe.hpp"
#include "core/launch/variables.hpp"

namespace pipeline::launch {

struct ProcessArgs {
  const std::vector<std::string>& command;  // begins with the program's path
  const Variables& environment;             // complete
  int output = -1;                          // for stdout and stderr; -1: same as this process
  int kept_open = -1;                       // descriptor that the child inherits; -1: none
  const SignalPipe& signals;
};

// The child dies with the thread that starts it, reads no input, and has its own process group: a signal
// from the terminal reaches only this process, which passes it on. Throws Error if no more processes can be
// created.
pid_t start_process(const ProcessArgs& args);

// Raises the open-file limit as far as the system allows: shells set 1,024, too few for many ranks and
// mapped files together.
void raise_file_limit();

// This program and its command line, as a command for start_process().
std::vector<std::string> own_command();

inline constexpr int kExitFinished = 0, kExitFailed = 1, kExitConfig = 2, kExitSaved = 75;

// From the mildest to the one that overrides all others. saved: on request; peer_failed: because another
// rank failed; config: the same error on all ranks.
enum class Verdict { finished, saved, peer_failed, config, failed };

Verdict judge(int wait_status);
int code_of(Verdict verdict);  // a process's exit code

// "was killed by SIGKILL (...)", "exited with code 1". `oom_kills_before`: oom_kills() at its start.
std::string describe_end(int wait_status, uint64_t oom_kills_before);

// How many processes the kernel's out-of-memory killer has ended on this machine; 0 if not known.
uint64_t oom_kills();

std::string signal_name(int signal);  // "SIGKILL"

}  // namespace pipeline::launch
