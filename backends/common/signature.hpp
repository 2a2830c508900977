// What a rank tells each other rank about its call before any data moves, so that differing calls cause an
// error that names both, not a wrong sum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/common/call.hpp"

namespace pipeline::backends {

// Sent as raw bytes between processes of one build: fixed-width fields, no padding. All zero: not sent yet.
struct Signature {
  uint64_t sequence = 0;  // 1 for the first call of a group
  uint32_t operation = 0;
  uint32_t reduce = 0;
  int32_t root = 0;
  pl_dtype dtype{};
  uint64_t count = 0;        // Call::common_count
  uint64_t counts_hash = 0;  // of the shares that must be the same on all ranks
  uint64_t sends = 0;        // all_to_all: to the rank that reads this
  uint64_t expects = 0;      // all_to_all: from the rank that reads this
};
static_assert(sizeof(Signature) == 56);

Signature signature_of(const Call& call, uint64_t sequence, int32_t reader);

// Describes how `mine`, which `my_rank` wrote for `other_rank`, differs from `other`; nullopt: they agree.
std::optional<std::string> difference(const Signature& mine, int32_t my_rank, const Signature& other,
                                      int32_t other_rank);

}  // namespace pipeline::backends
