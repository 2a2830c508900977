// Steps of a group in shared memory. In each round every rank publishes something for the others, waits for
// them to have done so, reads what they published, and says that it has.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "backends/shm/segment.hpp"

namespace pipeline::backends::shm {

class Rounds {
 public:
  // Blocks until all ranks share the segment (see Segment).
  Rounds(const Context& context, const std::string& group, int32_t rank, int32_t world_size,
         size_t slot_bytes);
  ~Rounds();

  // Begins the next round: blocks until the slot to publish in is free. Throws, as the others do, when the
  // group has ended, a rank that is waited for has, or after interrupt().
  char* begin();
  void publish();
  void wait_for_others();
  void end();

  // What a rank publishes in the current round.
  const char* slot_of(int32_t rank) const { return segment_.slot(rank, round_); }
  // Where this rank will write in the next round.
  char* next_slot() const { return segment_.slot(rank_, round_ + 1); }
  Announcement& announcement(int32_t writer, int32_t reader) const {
    return segment_.announcement(writer, round_, reader);
  }
  // Ranks that have not published yet what they do in `round`.
  std::vector<int32_t> behind(uint64_t round) const;
  uint64_t round() const { return round_; }
  size_t slot_bytes() const { return segment_.slot_bytes(); }

  void interrupt() noexcept;  // [any-thread]
  // Ends the group for everyone; the first reason stays.
  void end_group(const std::string& why) noexcept;

 private:
  using Progress = std::atomic<uint64_t> RankState::*;

  void wait_until(Progress progress, uint64_t value);
  bool reached(Progress progress, uint64_t value) const;
  bool is_in_the_way(Progress progress, uint64_t value) const;
  void check_group() const;
  void check_left(Progress progress, uint64_t value) const;
  void sleep(uint32_t bell);
  void ring(int32_t rank) noexcept;
  void ring_others() noexcept;

  Segment segment_;
  const int32_t rank_;
  const int32_t world_size_;
  RankState& mine_;
  uint64_t round_ = 0;
  bool was_brief_ = true;  // the last wait
  std::atomic<bool> interrupted_ = false;
};

}  // namespace pipeline::backends::shm
