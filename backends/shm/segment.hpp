// The memory that the ranks of a group share, and what is in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/common/signature.hpp"

namespace pipeline::backends::shm {

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
  Segment() = default;
  // `slot_bytes`: a multiple of 64.
  Segment(int32_t world_size, size_t slot_bytes);
  // Of another process, by file descriptor, which is taken.
  Segment(int fd, int32_t world_size, size_t slot_bytes);
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  int fd() const { return fd_; }
  Ending& ending() const { return *reinterpret_cast<Ending*>(base_); }
  RankState& state(int32_t rank) const;
  // What rank `writer` publishes in `round`, for all and for rank `reader`.
  char* slot(int32_t writer, uint64_t round) const;
  Announcement& announcement(int32_t writer, uint64_t round, int32_t reader) const;
  size_t slot_bytes() const { return slot_bytes_; }

  // This process lives as `rank`, until it closes the segment or ends in any way. Throws.
  void claim(int32_t rank);
  // Whether a process lives as `rank`.
  bool lives(int32_t rank) const;

 private:
  void map();
  size_t size() const;
  size_t states_at() const { return sizeof(Ending); }
  size_t announcements_at() const;
  size_t slots_at() const;

  int fd_ = -1;
  int lock_fd_ = -1;  // an open file of our own, which holds the lock on byte `rank`
  int32_t world_size_ = 0;
  size_t slot_bytes_ = 0;
  char* base_ = nullptr;
};

}  // namespace pipeline::backends::shm
