// What a trace says in a few lines: the costliest operations, and how much communication was hidden.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/observe/trace.hpp"

namespace pipeline::observe {

// All events of one name; those of collectives count by operation.
struct TraceCost {
  std::string name;
  uint64_t calls = 0;
  int64_t self = 0;  // nanoseconds, without what was called from within
};

struct TraceSummary {
  std::vector<TraceCost> costs;  // the costliest first
  bool has_operations = false;   // false: the costs are those of phases
  int64_t communication = 0;     // nanoseconds in which at least one collective ran
  int64_t hidden = 0;            // nanoseconds of these in which something was computed
  bool at_most = false;          // the backend does not say when they ran: from call to wait
};

// `main_thread`: the one that trains. For a device, computing and communication are those of its kernels.
TraceSummary summarize(const std::vector<TraceEvent>& events, int64_t main_thread);

}  // namespace pipeline::observe
