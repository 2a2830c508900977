// Starting one rank as a child process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

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

// This program and its command line, as a command for start_process().
std::vector<std::string> own_command();

}  // namespace pipeline::launch
