// How the ranks of a group exchange bytes: what differs between backends that run on a thread of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/call.hpp"

namespace pipeline::backends {

// All methods except interrupt() are called by one thread at a time: the one that opens the group, then the
// Queue's.
class Transport {
 public:
  virtual ~Transport() = default;

  // Executes the call; throws if it fails, and then no longer touches the call's memory.
  virtual void run(const Call& call, uint64_t sequence) = 0;
  // Makes current and future calls of run() throw soon. [any-thread]
  virtual void interrupt() noexcept = 0;
  // After run() threw: the ranks that had not joined that call, as far as known.
  virtual std::vector<int32_t> absent() const = 0;
  // Call it when the group has failed here. Tells the other ranks why, without waiting for them.
  virtual void leave(const std::string& why) noexcept = 0;

  virtual const std::string& library() const = 0;
  virtual const std::string& mechanism() const = 0;
};

}  // namespace pipeline::backends
