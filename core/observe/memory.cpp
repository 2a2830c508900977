#include "core/observe/memory.hpp"

#include <algorithm>
#include <fstream>
#include <string>

namespace pipeline::observe {
namespace {

// The number of a line `Name:   123 kB`, in bytes; 0 if there is none.
uint64_t field(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

}  // namespace

uint64_t peak_host_memory() { return field("/proc/self/status", "VmHWM"); }

uint64_t total_host_memory() {
  uint64_t total = field("/proc/meminfo", "MemTotal");
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  if (uint64_t bytes = 0; limit >> bytes) total = std::min(total, bytes);  // "max" is no number
  return total;
}

}  // namespace pipeline::observe
