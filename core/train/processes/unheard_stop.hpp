// A stop that what goes on does not hear: a plugin that reads, computes or waits without asking whether it
// was cancelled.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/observe/log.hpp"

namespace pipeline::train {

// While it lives, a signal that nobody has heard within one and a half seconds ends the process with exit
// code 75, also one that Python runs: all can be made again, as after a kill. Where a Signals::Saves waits
// for it, or the process is a notebook's, it stays, and a sentence says that a second signal ends it.
class UnheardStop {
 public:
  explicit UnheardStop(observe::Log& log);
  ~UnheardStop();
  UnheardStop(const UnheardStop&) = delete;
  UnheardStop& operator=(const UnheardStop&) = delete;

 private:
  void watch();

  observe::Log& log_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace pipeline::train
