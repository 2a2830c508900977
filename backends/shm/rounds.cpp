#include "backends/shm/rounds.hpp"

#include <pipeline/error.hpp>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <ctime>
#include <utility>

namespace pipeline::backends::shm {
namespace {

// How often a rank that is waited for is asked whether it has left: every so many nanoseconds.
constexpr long kLook = 100'000'000;
// A wait that lasts no longer is over sooner by looking than by sleeping: waking up takes a virtual machine
// some 50 microseconds. Longer waits sleep, since the cores belong to the ranks that compute.
constexpr std::chrono::microseconds kBrief{100};
// How long a rank looks before it sleeps, where its last wait was not brief.
constexpr std::chrono::microseconds kGlance{2};

using Clock = std::chrono::steady_clock;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Rounds::Rounds(const Context& context, const std::string& group, int32_t rank, int32_t world_size,
               size_t slot_bytes)
    : segment_(context, group, rank, world_size, slot_bytes),
      rank_(rank),
      world_size_(world_size),
      mine_(segment_.state(rank)) {}

Rounds::~Rounds() {
  mine_.left.store(1);
  ring_others();
}

char* Rounds::begin() {
  check_group();
  ++round_;
  if (round_ > kSlots) wait_until(&RankState::read, round_ - kSlots);
  return segment_.slot(rank_, round_);
}

void Rounds::publish() {
  mine_.core.store(::sched_getcpu(), std::memory_order_relaxed);
  mine_.published.store(round_);
  ring_others();
}

void Rounds::wait_for_others() { wait_until(&RankState::published, round_); }

void Rounds::end() {
  mine_.read.store(round_);
  ring_others();
}

std::vector<int32_t> Rounds::behind(uint64_t round) const {
  std::vector<int32_t> ranks;
  for (int32_t r = 0; r < world_size_; ++r) {
    if (segment_.state(r).published.load() < round) ranks.push_back(r);
  }
  return ranks;
}

bool Rounds::reached(Progress progress, uint64_t value) const {
  for (int32_t r = 0; r < world_size_; ++r) {
    if (r != rank_ && (segment_.state(r).*progress).load(std::memory_order_acquire) < value) return false;
  }
  return true;
}

// Looks, then sleeps, until the others have come to `value`. A wait is expected to be like the last one.
void Rounds::wait_until(Progress progress, uint64_t value) {
  mine_.core.store(::sched_getcpu(), std::memory_order_relaxed);
  const Clock::time_point begin = Clock::now(), look_until = begin + (was_brief_ ? kBrief : kGlance);
  for (;;) {
    const uint32_t bell = mine_.bell.load();
    if (reached(progress, value)) break;
    check_group();
    if (Clock::now() < look_until && !is_in_the_way(progress, value)) {
      pause_briefly();
      continue;
    }
    sleep(bell);
    if (mine_.bell.load() == bell) check_left(progress, value);
  }
  was_brief_ = Clock::now() - begin < 2 * kBrief;  // waking up included
}

// Whether a rank that is waited for needs the core on which this one looks.
bool Rounds::is_in_the_way(Progress progress, uint64_t value) const {
  const int32_t core = ::sched_getcpu();
  for (int32_t r = 0; r < world_size_; ++r) {
    const RankState& other = segment_.state(r);
    if (r != rank_ && other.core.load(std::memory_order_relaxed) == core && (other.*progress).load() < value)
      return true;
  }
  return false;
}

void Rounds::check_group() const {
  if (segment_.ending().state.load() == 2) fail_with(PL_ERROR_PEER, segment_.ending().why);
  if (interrupted_.load()) fail_with(PL_ERROR_PEER, "interrupted");
}

// Throws if a rank that is waited for has left without doing what was due.
void Rounds::check_left(Progress progress, uint64_t value) const {
  for (int32_t r = 0; r < world_size_; ++r) {
    const RankState& other = segment_.state(r);
    if (r != rank_ && other.left.load() != 0 && (other.*progress).load() < value)
      fail_with(PL_ERROR_PEER, "rank ", r, " has left the group");
  }
}

// Sleeps until the bell has rung since it was read, or for kLook.
void Rounds::sleep(uint32_t bell) {
  const timespec timeout{0, kLook};
  mine_.asleep.store(1);
  ::syscall(SYS_futex, &mine_.bell, FUTEX_WAIT, bell, &timeout, nullptr, 0);
  mine_.asleep.store(0);
}

void Rounds::ring(int32_t rank) noexcept {
  RankState& other = segment_.state(rank);
  other.bell.fetch_add(1);
  if (other.asleep.load() != 0) ::syscall(SYS_futex, &other.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Rounds::ring_others() noexcept {
  for (int32_t r = 0; r < world_size_; ++r) {
    if (r != rank_) ring(r);
  }
}

void Rounds::interrupt() noexcept {
  interrupted_.store(true);
  ring(rank_);
}

void Rounds::end_group(const std::string& why) noexcept {
  Ending& ending = segment_.ending();
  uint32_t nobody = 0;
  if (!ending.state.compare_exchange_strong(nobody, 1)) return;
  ending.why[why.copy(ending.why, sizeof ending.why - 1)] = '\0';
  ending.state.store(2);
  ring_others();
}

}  // namespace pipeline::backends::shm
