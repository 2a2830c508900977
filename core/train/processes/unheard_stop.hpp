// A stop that what goes on does not hear: a plugin that reads, computes or waits without asking whether it
// was cancelled.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/base/world.hpp"
#include "core/observe/log.hpp"

namespace pipeline::train {

// While it lives, a signal that nobody has heard within one and a half seconds ends the process with exit
// code 75, unless a Signals::Saves waits for it: all else can be made again, as after a kill. Where others'
// code runs in the same process (Python, whose own the process is), it stays.
class UnheardStop {
 public:
  UnheardStop(const World& world, observe::Log& log);
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
