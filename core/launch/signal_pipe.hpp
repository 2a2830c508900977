// The signals that the supervisor acts on, as something to poll. Handlers, not a blocked mask: the CUDA
// driver has threads of its own, and children inherit masks.
#pragma once

#include <vector>

#include "core/base/socket.hpp"

namespace pipeline::launch {

class SignalPipe {
 public:
  // Takes over SIGINT, SIGTERM, SIGUSR1, SIGHUP (unless ignored, as under nohup), SIGTSTP, SIGCHLD; ignores
  // SIGPIPE. One at a time.
  SignalPipe();
  ~SignalPipe();  // puts back what was there
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int descriptor() const { return pipe_.out.fd(); }  // readable when there are signals to take
  std::vector<int> take();                           // those since the last call, in order

  // In a child between fork and exec: signals as they were before.
  void restore() const;

 private:
  Pipe pipe_;
};

}  // namespace pipeline::launch
