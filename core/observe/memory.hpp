// Memory of this process, as the operating system counts it.
#pragma once

#include <cstdint>

namespace pipeline::observe {

struct HostMemory {
  uint64_t resident = 0;  // bytes now
  uint64_t peak = 0;      // bytes at most so far
};

HostMemory host_memory();      // from /proc/self/status
uint64_t total_host_memory();  // of the machine, or of the cgroup where that is less

}  // namespace pipeline::observe
