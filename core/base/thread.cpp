#include "core/base/thread.hpp"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace pipeline {

std::thread start_thread(const char* name, std::function<void()> work) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  std::thread thread(std::move(work));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace pipeline
