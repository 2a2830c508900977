// A supervisor in a process of its own, whose ranks are shells that run a script.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace pipeline::launch {

class Supervised {
 public:
  struct Options {
    int processes = 3, max_restarts = 0;
    std::chrono::milliseconds grace{500};
  };

  // `script` sees the folder as $OUT, and finds `logs` in it.
  Supervised(const Options& options, const std::string& script);
  ~Supervised();  // kills what is left

  void send(int signal) const;
  int wait();                   // the exit code, or 1000 + the signal that ended it
  std::string printed() const;  // to stdout and stderr so far

  std::string file(const std::string& name) const;  // in the folder; empty if it is not there
  void wait_for(const std::string& name) const;     // until the file is there
  std::filesystem::path folder() const { return folder_.path(); }
  pid_t pid() const { return pid_; }

 private:
  tests::TemporaryFolder folder_;
  pid_t pid_ = 0;
  bool ended_ = false;
};

// Whether the process comes into this state within 10 s.
bool stopped(pid_t pid);
bool gone(pid_t pid);

}  // namespace pipeline::launch
