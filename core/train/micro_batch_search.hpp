// train.micro_batch = "auto": the largest micro-batch that memory has room for, found by real steps with
// growing micro-batches. Each is predicted before it is tried, since on the host the system would kill the
// process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/train/session/session.hpp"

namespace pipeline::train {

inline constexpr double kMemoryMargin = 0.1;  // of the free memory, which is left alone

// The memory of one rank, on its device or in its process, in bytes.
struct RankMemory {
  uint64_t limit = 0;        // that it may use
  uint64_t fixed = 0;        // the part of the peak that does not depend on the micro-batch
  uint64_t activations = 0;  // the rest, of the micro-batch that was measured

  // The peak with micro-batches of `size`: the rest grows with it at most in proportion.
  uint64_t peak(uint64_t size, uint64_t measured) const;
};

// Which of `choices` to measure next: the largest one that all ranks have room for, at most twice the last
// one, or where there is none the next one. nullopt: no larger one fits.
std::optional<uint64_t> next_micro_batch(std::span<const uint64_t> choices, uint64_t measured,
                                         std::span<const RankMemory> ranks);

struct FoundMicroBatch {
  uint64_t size = 1;
  RankMemory memory;              // of the rank that is the nearest to its limit, with this size
  std::optional<uint64_t> other;  // the next larger one, for which there is no room
};

// All ranks together find the same; nullopt: a signal to any of them stopped it. The session is bound, and of
// no use afterwards. Throws where the memory does not suffice for the smallest one.
std::optional<FoundMicroBatch> find_micro_batch(Session& session);

}  // namespace pipeline::train
