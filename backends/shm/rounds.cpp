#include "backends/shm/rounds.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include <pipeline/error.hpp>

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

constexpr size_t kPage = 4096;

size_t up_to(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

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

Segment::Segment(const Context& context, const std::string& group, int32_t rank, int32_t world_size,
                 size_t slot_bytes)
    : world_size_(world_size), slot_bytes_(slot_bytes) {
  std::optional<Error> failed;
  std::string mine;
  const auto attempt = [&](auto&& part) {
    try {
      if (!failed) part();
    } catch (...) {
      failed = current_error();
    }
  };
  if (rank == 0) {
    attempt([&] {
      make();
      mine = name();
    });
  }
  const std::string memory = context.exchange(group + "/memory", mine).front();
  if (rank != 0 && !memory.empty()) attempt([&] { open(memory); });
  attempt([&] { map(); });
  // Rank 0's file stays open until the others have it.
  const std::vector<std::string> problems = context.exchange(group + "/mapped", failed ? failed->what() : "");
  close_file();
  for (size_t r = 0; r < problems.size(); ++r) {
    if (problems[r].empty()) continue;
    unmap();
    if (failed) fail_with(failed->code(), "open: ", failed->what());
    fail_with(PL_ERROR_PEER, "open: rank ", r, ": ", problems[r]);
  }
}

void Segment::make() {
  fd_ = ::memfd_create("pipeline-shm", MFD_CLOEXEC);
  // fallocate, not ftruncate: memory that is not there is an error now, and not a SIGBUS later.
  if (fd_ >= 0 && ::fallocate(fd_, 0, 0, static_cast<off_t>(size())) == 0) return;
  fail_with(errno == ENOSPC || errno == ENOMEM ? PL_ERROR_OUT_OF_MEMORY : PL_ERROR_FAILED, size() >> 20,
            " MiB of shared memory cannot be had: ", std::strerror(errno),
            ": free memory, or make backend.buffer_kib smaller");
}

// What tells this memory from all other files of the host, and how large it is.
std::string Segment::name() const {
  struct stat status {};
  ::fstat(fd_, &status);
  return concat("/proc/", ::getpid(), "/fd/", fd_, ' ', status.st_dev, ' ', status.st_ino, ' ',
                status.st_size);
}

// Opens rank 0's memory through /proc. In another container its number may belong to another process.
void Segment::open(const std::string& from_rank_0) {
  std::istringstream words(from_rank_0);
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  size_t bytes = 0;
  words >> path >> device >> inode >> bytes;
  if (bytes != size())
    fail("rank 0 shares ", bytes, " bytes of memory, expected ", size(),
         ": all ranks need the same build and the same backend.buffer_kib");
  fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const int problem = fd_ < 0 ? errno : ENOENT;
  struct stat status {};
  if (fd_ >= 0 && ::fstat(fd_, &status) == 0 && status.st_dev == device && status.st_ino == inode) return;
  fail_with(
      PL_ERROR_UNSUPPORTED, "rank 0's memory is not at ", path, " here (", std::strerror(problem),
      "): shm works for processes of one user on one host, and in one container; gloo over any network");
}

void Segment::map() {
  if (fd_ < 0) return;  // rank 0 has failed
  void* memory = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED)
    fail_with(PL_ERROR_OUT_OF_MEMORY, "shared memory cannot be mapped: ", std::strerror(errno));
  base_ = static_cast<char*>(memory);
}

void Segment::close_file() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Segment::unmap() {
  if (base_ != nullptr) ::munmap(std::exchange(base_, nullptr), size());
}

size_t Segment::announcements_at() const {
  return states_at() + static_cast<size_t>(world_size_) * sizeof(RankState);
}
size_t Segment::slots_at() const {
  const auto ranks = static_cast<size_t>(world_size_);
  return up_to(announcements_at() + ranks * kSlots * ranks * sizeof(Announcement), kPage);
}
size_t Segment::size() const { return slots_at() + static_cast<size_t>(world_size_) * kSlots * slot_bytes_; }

RankState& Segment::state(int32_t rank) const {
  return reinterpret_cast<RankState*>(base_ + states_at())[rank];
}

Announcement& Segment::announcement(int32_t writer, uint64_t round, int32_t reader) const {
  const auto ranks = static_cast<uint64_t>(world_size_);
  const uint64_t at =
      (static_cast<uint64_t>(writer) * kSlots + round % kSlots) * ranks + static_cast<uint64_t>(reader);
  return reinterpret_cast<Announcement*>(base_ + announcements_at())[at];
}

char* Segment::slot(int32_t writer, uint64_t round) const {
  return base_ + slots_at() + (static_cast<uint64_t>(writer) * kSlots + round % kSlots) * slot_bytes_;
}

}  // namespace pipeline::backends::shm
