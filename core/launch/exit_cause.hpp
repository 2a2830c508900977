// How a process ended, in words, and what that means for the others.
#pragma once

#include <cstdint>
#include <string>

namespace pipeline::launch {

inline constexpr int kExitFinished = 0, kExitFailed = 1, kExitConfig = 2, kExitSaved = 75;

// From the mildest to what overrides all others. saved: on request; peer_failed: because of another one;
// config: all ranks alike.
enum class Verdict { finished, saved, peer_failed, config, failed };

Verdict judge(int wait_status);

// "was killed by SIGKILL (...)", "exited with code 1". `oom_kills_before`: oom_kills() when the process was
// started.
std::string describe_end(int wait_status, uint64_t oom_kills_before);

// How many processes the kernel's out-of-memory killer has ended on this machine; 0 where it does not tell.
uint64_t oom_kills();

std::string signal_name(int signal);  // "SIGKILL"

}  // namespace pipeline::launch
