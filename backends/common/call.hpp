// One rank's call of one collective, checked and normalised; and what a rank tells each other rank about it
// before any data moves, so that differing calls cause an error that names both, not a wrong sum.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <pipeline/backend.hpp>

namespace pipeline::backends {

enum class Operation : uint32_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kAllToAll, kBarrier };

// "all_reduce"
const char* operation_name(Operation operation);

struct Call {
  Operation operation = Operation::kBarrier;
  uint32_t reduce = 0;  // PL_REDUCE_...; 0: none
  int32_t root = 0;     // of a broadcast
  pl_buffer in{};       // the same as `out` if the operation works in place
  pl_buffer out{};
  std::vector<uint64_t> send;     // elements per rank: in `in`, or (all_gather) in `out`
  std::vector<uint64_t> receive;  // elements per rank in `out`; all_to_all only

  size_t width() const { return in.dtype.bits / 8; }  // bytes of an element
  // The number of elements, if it is the same on all ranks; otherwise 0.
  uint64_t common_count() const;
};

// Throws if a group for host memory cannot be opened so; `instead`: what to do about a CUDA device.
void check_open_args(const pl_backend_open_args& args, const char* instead);

// Makes the calls of one rank; throws if arguments contradict each other. A shard may be this rank's own
// part of the full buffer; otherwise buffers must not overlap. `device`: the kind of memory (PL_DEVICE_...)
// that the backend works in.
class Calls {
 public:
  Calls(int32_t rank, int32_t world_size, int32_t device)
      : rank_(rank), world_size_(world_size), device_(device) {}

  Call all_reduce(const pl_buffer& in_out, uint32_t reduce) const;
  Call reduce_scatter(const pl_buffer& in, const pl_buffer& shard, const Counts& counts,
                      uint32_t reduce) const;
  Call all_gather(const pl_buffer& shard, const pl_buffer& full, const Counts& counts) const;
  Call broadcast(const pl_buffer& in_out, int32_t root) const;
  Call all_to_all(const pl_buffer& in, const pl_buffer& out, const Counts& send, const Counts& receive) const;
  Call barrier() const { return {}; }

 private:
  const pl_buffer& checked(const char* what, const pl_buffer& buffer) const;
  std::vector<uint64_t> shares(const char* what, const Counts& given, uint64_t total) const;
  void check_shard(const char* what, const pl_buffer& shard, const pl_buffer& full,
                   const std::vector<uint64_t>& counts) const;

  int32_t rank_;
  int32_t world_size_;
  int32_t device_;
};

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

// Reductions in the order of the ranks: the same bits on every rank and in every run.

// Elements reduced at a time: a block's sums stay in the first-level cache while the inputs stream past.
constexpr uint64_t kReduceBlock = 2048;

bool can_reduce(pl_dtype dtype);

// out[i] = ((inputs[0][i] op inputs[1][i]) op inputs[2][i]) ..., for `count` elements. Half precisions are
// added in float32 and rounded once; integers wrap around; NaN stays NaN in minimum and maximum; a sum of
// booleans is "any". `out` may be one of the inputs. REQUIRES: can_reduce() for the dtype. [any-thread]
void reduce_in_order(void* out, std::span<const void* const> inputs, uint64_t count, pl_dtype dtype,
                     uint32_t reduce);

}  // namespace pipeline::backends
