// How the processes of a group on one host come to share memory: over a local socket of rank 0's, which
// gives each the file descriptor. The socket has no name in any file system, and is gone when all are there.
#pragma once

#include <pipeline/context.hpp>

#include <string>

#include "backends/shm/segment.hpp"

namespace pipeline::backends::shm {

struct Meeting {
  uint32_t port;
  std::string group;
  int32_t rank;
  int32_t world_size;
  double timeout_seconds;
  size_t slot_bytes;
};

// Blocks until every rank has the segment and has claimed its place in it. Throws.
Segment meet(const Context& context, const Meeting& meeting);

}  // namespace pipeline::backends::shm
