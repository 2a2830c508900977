#include "backends/shm/pieces.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/common/reduce.hpp"

namespace pipeline::backends::shm {
namespace {

constexpr size_t kLine = 64;  // shares of a slot begin on cache lines

bool for_each_rank(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter ||
         operation == Operation::kAllToAll;
}

uint64_t largest(const std::vector<uint64_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

uint64_t divided_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

}  // namespace

Pieces::Pieces(const Call& call, int32_t rank, int32_t world_size, size_t slot_bytes)
    : call_(call), rank_(rank), world_size_(world_size), width_(std::max<size_t>(call.width(), 1)) {
  const size_t shares = for_each_rank(call.operation) ? static_cast<size_t>(world_size) : 1;
  share_ = slot_bytes / shares / kLine * kLine / width_;
  uint64_t needed = 0;
  switch (call.operation) {
    case Operation::kAllReduce:  // the sums of a round go out in the next one
      needed = divided_up(call.in.count, share_ * static_cast<uint64_t>(world_size)) + 1;
      break;
    case Operation::kBroadcast:
      needed = divided_up(call.in.count, share_);
      break;
    default:
      needed = divided_up(std::max(largest(call.send), largest(call.receive)), share_);
  }
  rounds_ = std::max<uint64_t>(needed, 1);
}

// The part of a rank's shard whose turn it is, in a buffer of all shards.
Pieces::Range Pieces::of_rank(const Counts& counts, int32_t rank, uint64_t round) const {
  const auto shard = counts.begin() + rank;
  const uint64_t done = std::min(round * share_, *shard);
  return {std::accumulate(counts.begin(), shard, done), std::min(share_, *shard - done)};
}

// The part that a rank adds up: neighbouring ones in a round, so that memory is passed through once.
Pieces::Range Pieces::of_sum(int32_t rank, uint64_t round) const {
  const auto ranks = static_cast<uint64_t>(world_size_), r = static_cast<uint64_t>(rank);
  const uint64_t begin = std::min(round * share_ * ranks, call_.in.count);
  const uint64_t size = std::min(share_ * ranks, call_.in.count - begin);
  return {begin + size * r / ranks, size * (r + 1) / ranks - size * r / ranks};
}

char* Pieces::at(const pl_buffer& buffer, uint64_t element) const {
  return static_cast<char*>(buffer.data) + element * width_;
}

// Bytes from the beginning of a slot to what is for, or from, `rank`.
size_t Pieces::place(int32_t rank) const { return static_cast<size_t>(rank) * share_ * width_; }

void Pieces::copy(void* to, const void* from, uint64_t count) const {
  if (count > 0 && to != from) std::memcpy(to, from, count * width_);
}

// The others' terms lie in their slots, at this rank's place. The sum goes to `out`, and to `copy_to` where
// that is not null, block by block: memory is passed through once.
void Pieces::reduce(const Rounds& rounds, char* own, char* out, char* copy_to, uint64_t count) const {
  std::vector<const void*> terms(static_cast<size_t>(world_size_));
  for (uint64_t begin = 0; begin < count; begin += kReduceBlock) {
    const uint64_t size = std::min(kReduceBlock, count - begin);
    const size_t offset = begin * width_;
    for (int32_t r = 0; r < world_size_; ++r)
      terms[static_cast<size_t>(r)] = (r == rank_ ? own : rounds.slot_of(r) + place(rank_)) + offset;
    reduce_in_order(out + offset, terms, size, call_.in.dtype, call_.reduce);
    if (copy_to != nullptr) copy(copy_to + offset, out + offset, size);
  }
}

void Pieces::write(uint64_t round, char* slot) const {
  switch (call_.operation) {
    case Operation::kAllReduce:
      return write_all_reduce(round, slot);
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return write_to_each(call_.send, round, slot);
    case Operation::kAllGather: {
      const uint64_t done = std::min(round * share_, call_.in.count);
      return copy(slot, at(call_.in, done), std::min(share_, call_.in.count - done));
    }
    case Operation::kBroadcast: {
      const uint64_t done = std::min(round * share_, call_.in.count);
      if (rank_ == call_.root) copy(slot, at(call_.in, done), std::min(share_, call_.in.count - done));
      return;
    }
    case Operation::kBarrier:
      return;
  }
}

void Pieces::read(uint64_t round, const Rounds& rounds) const {
  switch (call_.operation) {
    case Operation::kAllReduce:
      return read_all_reduce(round, rounds);
    case Operation::kReduceScatter:
      return read_reduce_scatter(round, rounds);
    case Operation::kAllGather:
      return read_all_gather(round, rounds);
    case Operation::kAllToAll:
      return read_all_to_all(round, rounds);
    case Operation::kBroadcast: {
      const uint64_t done = std::min(round * share_, call_.out.count);
      if (rank_ != call_.root)
        copy(at(call_.out, done), rounds.slot_of(call_.root), std::min(share_, call_.out.count - done));
      return;
    }
    case Operation::kBarrier:
      return;
  }
}

void Pieces::write_to_each(const Counts& counts, uint64_t round, char* slot) const {
  for (int32_t r = 0; r < world_size_; ++r) {
    const Range piece = of_rank(counts, r, round);
    if (r != rank_) copy(slot + place(r), at(call_.in, piece.begin), piece.size);
  }
}

void Pieces::write_all_reduce(uint64_t round, char* slot) const {
  for (int32_t r = 0; r < world_size_; ++r) {
    const Range part = of_sum(r, round);
    if (r != rank_) copy(slot + place(r), at(call_.in, part.begin), part.size);
  }
}

// The sum is put where the next round sends it from. That slot is free: the others have published this round,
// so they are done with the one before, whose slot it was.
void Pieces::read_all_reduce(uint64_t round, const Rounds& rounds) const {
  const Range mine = of_sum(rank_, round);
  reduce(rounds, at(call_.in, mine.begin), at(call_.out, mine.begin), rounds.next_slot() + place(rank_),
         mine.size);
  if (round == 0) return;
  for (int32_t r = 0; r < world_size_; ++r) {
    const Range sum = of_sum(r, round - 1);
    if (r != rank_) copy(at(call_.out, sum.begin), rounds.slot_of(r) + place(r), sum.size);
  }
}

void Pieces::read_reduce_scatter(uint64_t round, const Rounds& rounds) const {
  const Range mine = of_rank(call_.send, rank_, round);
  const uint64_t done = std::min(round * share_, call_.out.count);
  reduce(rounds, at(call_.in, mine.begin), at(call_.out, done), nullptr, mine.size);
}

void Pieces::read_all_gather(uint64_t round, const Rounds& rounds) const {
  for (int32_t r = 0; r < world_size_; ++r) {
    const Range piece = of_rank(call_.send, r, round);
    const char* own = at(call_.in, std::min(round * share_, call_.in.count));
    copy(at(call_.out, piece.begin), r == rank_ ? own : rounds.slot_of(r), piece.size);
  }
}

void Pieces::read_all_to_all(uint64_t round, const Rounds& rounds) const {
  for (int32_t r = 0; r < world_size_; ++r) {
    const Range piece = of_rank(call_.receive, r, round);
    const char* from =
        r == rank_ ? at(call_.in, of_rank(call_.send, r, round).begin) : rounds.slot_of(r) + place(rank_);
    copy(at(call_.out, piece.begin), from, piece.size);
  }
}

}  // namespace pipeline::backends::shm
