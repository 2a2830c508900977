// Steps of a group in shared memory. In each round every rank publishes something for the others, waits for
// them to have done so, reads what they published, and says that it has.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <pipeline/context.hpp>

#include "backends/common/call.hpp"

namespace pipeline::backends::shm {

// The memory that the ranks of a group share, and what is in it.
// Rank r publishes round t in slot t mod kSlots and may use that slot again when all have read it.
constexpr uint64_t kSlots = 2;

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

struct alignas(64) RankState {
  // Counts events that this rank may wait for; it sleeps on its address (a futex).
  std::atomic<uint32_t> bell;
  std::atomic<uint32_t> asleep;
  alignas(64) std::atomic<uint64_t> published;  // rounds
  std::atomic<int32_t> core;                    // where it ran last
  alignas(64) std::atomic<uint64_t> read;       // rounds of all the others
  std::atomic<uint32_t> left;                   // for good, without an error
};

// What rank `writer` says to rank `reader` in the first round of a call.
struct Announcement {
  Signature signature;
  uint64_t rounds;  // that the writer needs for the call; the most of all ranks are made
};

// Why the group ended, written once by whoever is first.
struct alignas(64) Ending {
  std::atomic<uint32_t> state;  // 0: has not; 1: is being written; 2: is here
  char why[1020];
};

// A memory mapping that is freed with its last user: it has no name, so that nothing is left of it, however
// its users end.
class Segment {
 public:
  // Rank 0 makes it and the others open it; returns when all have. `group`: its name for what the ranks
  // exchange. `slot_bytes`: a multiple of 64. Throws on all ranks when one of them fails.
  Segment(const Context& context, const std::string& group, int32_t rank, int32_t world_size,
          size_t slot_bytes);
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() { unmap(); }

  Ending& ending() const { return *reinterpret_cast<Ending*>(base_); }
  RankState& state(int32_t rank) const;
  // What rank `writer` publishes in `round`, for all and for rank `reader`.
  char* slot(int32_t writer, uint64_t round) const;
  Announcement& announcement(int32_t writer, uint64_t round, int32_t reader) const;
  size_t slot_bytes() const { return slot_bytes_; }

 private:
  void make();
  void open(const std::string& from_rank_0);
  void map();
  void unmap();
  void close_file();
  std::string name() const;
  size_t size() const;
  size_t states_at() const { return sizeof(Ending); }
  size_t announcements_at() const;
  size_t slots_at() const;

  int fd_ = -1;
  const int32_t world_size_;
  const size_t slot_bytes_;
  char* base_ = nullptr;
};

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
