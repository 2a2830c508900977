#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace pipeline::tests {

// Runs `work` in a process of its own; its result is the exit status.
inline pid_t in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 100;
    try {
      status = work();
    } catch (...) {
    }
    ::_exit(status);
  }
  return child;
}

// The exit status of a child, or 200 + the signal that ended it.
inline int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

}  // namespace pipeline::tests
