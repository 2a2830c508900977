// Signals as a flag that the loop looks at between steps: nothing is saved inside a handler. The first
// SIGINT, SIGTERM, SIGUSR1 or SIGHUP (unless it is ignored, as under nohup) asks for a checkpoint and exit
// code 75; the second one leaves at once. A console that goes away (SIGPIPE) does not end a run,
// and where a file may not grow (SIGXFSZ), the write fails.
#pragma once

#include <string>

#include "core/base/thread.hpp"
#include "core/observe/log.hpp"

namespace pipeline::train {

// interrupted: by a signal; the same command goes on where it stopped.
enum class Outcome { finished, interrupted };

class Signals {
 public:
  // Installs the handlers for as long as it lives. One at a time in a process. `supervised`: the parent
  // passes on what it gets itself. A batch system that signals every process of a job (Slurm, systemd) then
  // reaches this one on both ways, which counts once.
  explicit Signals(bool supervised = false);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // The signal that came first, or 0. Any thread.
  static int received();
  static std::string name(int signal);  // "SIGINT"

  // While one lives, what was done would be lost with the process: a stop is waited for, and saves it.
  class Saves {
   public:
    Saves();
    ~Saves();
    Saves(const Saves&) = delete;
    Saves& operator=(const Saves&) = delete;
  };
  // Says that the signal was heard: what remains is to leave.
  static void hear();
  // Whether a signal came that nobody has heard, and nothing would be lost with the process. Any thread.
  static bool is_unheard();
  // Whether one came that is waited for, and nobody has heard it yet. Any thread.
  static bool is_awaited();

  // From here on signals count no more: all is saved. `for_good`: to the end of the process, as a launcher
  // that takes the first rank's leaving for a failure sends them to the others.
  static void ignore(bool for_good);
};

// A stop that what goes on does not hear: a plugin that reads, computes or waits without asking whether it
// was cancelled.

// While it lives, a signal that nobody has heard within one and a half seconds ends the process with exit
// code 75, also one that Python runs: all can be made again, as after a kill. Where a Signals::Saves waits
// for it, or the process is a notebook's, it stays, and a sentence says that a second signal ends it.
class UnheardStop {
 public:
  explicit UnheardStop(observe::Log& log);

 private:
  bool look();

  observe::Log& log_;
  int looks_ = 0;
  Ticker ticker_;
};

}  // namespace pipeline::train
