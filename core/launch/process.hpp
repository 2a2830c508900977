// One rank as a child process: how it starts, what its end means, and the signals of whoever watches it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <malloc.h>
#include <sys/types.h>

#include "core/base/socket.hpp"
#include "core/launch/rank_env.hpp"

namespace pipeline::launch {

// The signals that the supervisor acts on, as a descriptor to poll. Uses handlers, not a blocked mask: the
// CUDA driver has its own threads, and children inherit masks.
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

struct ProcessArgs {
  const std::vector<std::string>& command;  // begins with the program's path
  const Variables& environment;             // complete
  int output = -1;                          // for stdout and stderr; -1: same as this process
  int kept_open = -1;                       // descriptor that the child inherits; -1: none
  const SignalPipe& signals;
};

// The child dies with the thread that starts it, reads no input, begins in start_folder(), and has its own
// process group: a signal from the terminal reaches only this process, which passes it on. Throws Error if no
// more processes can be created.
pid_t start_process(const ProcessArgs& args);

// Raises the open-file limit as far as the system allows: shells set 1,024, too few for many ranks and
// mapped files together.
void raise_file_limit();

// What the allocator does with memory that is freed. Tensors come and go every step: glibc would map and
// unmap each one, and the kernel would clear its pages again every time. Only the largest, of 32 MiB and more
// (it takes no higher threshold), are mapped: in a heap the holes that they leave would be cut up by small
// ones, and the next one find none. `sparing`: from 4 MiB on, for a run that recomputes activations to save
// memory: what it keeps between the layers cuts up the holes of a layer, which took as much as it saves. That
// costs a few percent of time.
inline void keep_freed_memory(bool sparing = false) {
  mallopt(M_MMAP_THRESHOLD, (sparing ? 4 : 32) << 20);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
}

// This program and its command line, as a command for start_process().
std::vector<std::string> own_command();

inline constexpr int kExitFinished = 0, kExitFailed = 1, kExitConfig = 2, kExitSaved = 75;

// Verdicts from the mildest to the one that overrides all others. saved: on request; peer_failed,
// peer_refused: because of another rank; config: an error of the configuration.
enum class Verdict { finished, saved, peer_failed, peer_refused, config, failed };

Verdict judge(int wait_status);
int code_of(Verdict verdict);  // a process's exit code

// "was killed by SIGKILL (...)", "exited with code 1". `oom_kills_before`: oom_kills() at its start.
std::string describe_end(int wait_status, uint64_t oom_kills_before);

// How many processes the kernel's out-of-memory killer has ended on this machine; 0 if not known.
uint64_t oom_kills();

std::string signal_name(int signal);  // "SIGKILL"

}  // namespace pipeline::launch
