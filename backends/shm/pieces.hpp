// What a collective publishes and reads in each of its rounds.
#pragma once

#include <vector>

#include "backends/common/call.hpp"
#include "backends/shm/rounds.hpp"

namespace pipeline::backends::shm {

// One call, cut into rounds by the size of the slots.
class Pieces {
 public:
  Pieces(const Call& call, int32_t rank, int32_t world_size, size_t slot_bytes);

  uint64_t rounds() const { return rounds_; }  // that this rank needs; at least one
  void write(uint64_t round, char* slot) const;
  void read(uint64_t round, const Rounds& rounds) const;

 private:
  // Elements in a buffer.
  struct Range {
    uint64_t begin, size;
  };
  using Counts = std::vector<uint64_t>;

  Range of_rank(const Counts& counts, int32_t rank, uint64_t round) const;
  Range of_sum(int32_t rank, uint64_t round) const;
  char* at(const pl_buffer& buffer, uint64_t element) const;
  size_t place(int32_t rank) const;
  void copy(void* to, const void* from, uint64_t count) const;
  void reduce(const Rounds& rounds, char* own, char* out, char* copy_to, uint64_t count) const;

  void write_to_each(const Counts& counts, uint64_t round, char* slot) const;
  void write_all_reduce(uint64_t round, char* slot) const;
  void read_all_reduce(uint64_t round, const Rounds& rounds) const;
  void read_reduce_scatter(uint64_t round, const Rounds& rounds) const;
  void read_all_gather(uint64_t round, const Rounds& rounds) const;
  void read_all_to_all(uint64_t round, const Rounds& rounds) const;

  const Call& call_;
  const int32_t rank_;
  const int32_t world_size_;
  const size_t width_;  // bytes of an element
  uint64_t share_;      // elements of a slot for each rank, or for all
  uint64_t rounds_ = 1;
};

}  // namespace pipeline::backends::shm
