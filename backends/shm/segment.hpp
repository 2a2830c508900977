// The memory that the ranks of a group share, and what is in it.
#pragma once

#include <pipeline/context.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

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

}  // namespace pipeline::backends::shm
