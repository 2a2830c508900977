// How the ranks of a group exchange bytes: what differs between backends that work on a thread of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/common/call.hpp"

namespace pipeline::backends {

// Everything but interrupt() is called by one thread at a time: who opens the group, then its Queue's thread.
class Transport {
 public:
  virtual ~Transport() = default;

  // Carries the call out, and throws where that fails; then no more of the call's memory is touched.
  virtual void run(const Call& call, uint64_t sequence) = 0;
  // Makes run(), under way or to come, throw soon. [any-thread]
  virtual void interrupt() noexcept = 0;
  // After run() threw: the ranks that had not come to that call, as far as is known.
  virtual std::vector<int32_t> absent() const = 0;
  // The group has failed here. Tells the other ranks why, without waiting for them.
  virtual void leave(const std::string& why) noexcept = 0;

  virtual const std::string& library() const = 0;
  virtual const std::string& mechanism() const = 0;
};

}  // namespace pipeline::backends
