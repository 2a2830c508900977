// The signals that the supervisor acts on, as a descriptor to poll. Uses handlers, not a blocked mask: the
// CUDA driver has its own threads, and children inherit masks.
#pragma once

#include <vector>

#include "core/base/socket.hpp"

namespace pipeline::launch {

class SignalPipe {
 public:
  // Takes over SIGINT, SIGTERM, SIGUSR1, SIGHUP (unless ignored, as under nohup), SIGTSTP, SIGCHLD; ignores
  // SIGPIPE. One at a time.
  SignalPipe();
  ~SignalPipe();  // restores the previous handlers
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int descriptor() const { return pipe_.out.fd(); }  // readable when there are signals to take
  std::vector<int> take();                           // signals since the last call, in order

  // For a child, between fork and exec: restores the previous signal state.
  void restore() const;

 private:
  Pipe pipe_;
};

}  // namespace pipeline::launch
