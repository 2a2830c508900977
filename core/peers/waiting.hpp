// Tells what a rank waits for while it does, on a thread of its own: looking up a name or connecting may take
// longer than anybody should be left in the dark.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "core/peers/background.hpp"

namespace pipeline::peers {

class Waiting {
 public:
  // `tell`: see Options::on_waiting; empty: nobody is told.
  Waiting(std::function<void(const std::string& what)> tell, Seconds notice);
  ~Waiting();  // ends it
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void is_for(std::string what);  // [any-thread]

 private:
  void run();

  const std::function<void(const std::string&)> tell_;
  const Seconds notice_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::string what_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace pipeline::peers
