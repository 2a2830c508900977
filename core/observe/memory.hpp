// Memory of this process, as reported by the operating system.
#pragma once

#include <cstdint>

namespace pipeline::observe {

// In bytes.
uint64_t peak_host_memory();   // of this process, at most so far
uint64_t total_host_memory();  // of the machine, or of the cgroup if that is less

}  // namespace pipeline::observe
