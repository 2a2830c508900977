#pragma once

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.hpp"

namespace pipeline {

// A thread that receives no signals: those are for the main thread. `name`: static, at most 15 bytes; the
// thread has it before it works, as it may end with its first words. Throws Error where the system gives
// none.
inline std::thread start_thread(const char* name, std::function<void()> work) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  std::thread thread;
  int problem = 0;
  try {
    thread = std::thread([name, work = std::move(work)] {
      ::pthread_setname_np(::pthread_self(), name);
      work();
    });
  } catch (const std::system_error& error) {
    problem = error.code().value();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (problem != 0)
    throw Error(PL_ERROR_OUT_OF_MEMORY,
                std::string("the system gives no thread (") + name + "): " + std::strerror(problem) +
                    ": raise the limit of memory or of processes (ulimit -v, ulimit -u)");
  return thread;
}

// Calls `tick` after each `period`, on a thread of its own, until that returns false or this is destroyed.
class Ticker {
 public:
  Ticker(const char* name, std::chrono::duration<double> period, std::function<bool()> tick) {
    thread_ = start_thread(name, [this, period, tick = std::move(tick)] {
      std::unique_lock lock(mutex_);
      while (!ended_.wait_for(lock, period, [this] { return is_over_; })) {
        if (!tick()) return;
      }
    });
  }
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace pipeline
