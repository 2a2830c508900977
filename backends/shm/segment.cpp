#include "backends/shm/segment.hpp"

#include <pipeline/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace pipeline::backends::shm {
namespace {

constexpr size_t kPage = 4096;

size_t up_to(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

struct flock lock_of(int32_t rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

Segment::Segment(int32_t world_size, size_t slot_bytes) : world_size_(world_size), slot_bytes_(slot_bytes) {
  fd_ = ::memfd_create("pipeline-shm", MFD_CLOEXEC);
  // fallocate, not ftruncate: memory that is not there is an error now, and not a SIGBUS later.
  if (fd_ < 0 || ::fallocate(fd_, 0, 0, static_cast<off_t>(size())) != 0) {
    const int problem = errno;
    if (fd_ >= 0) ::close(fd_);
    fail_with(problem == ENOSPC || problem == ENOMEM ? PL_ERROR_OUT_OF_MEMORY : PL_ERROR_FAILED,
              "open: ", size() >> 20, " MiB of shared memory cannot be had: ", std::strerror(problem),
              ": free memory, or make backend.buffer_kib smaller");
  }
  map();
}

Segment::Segment(int fd, int32_t world_size, size_t slot_bytes)
    : fd_(fd), world_size_(world_size), slot_bytes_(slot_bytes) {
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || static_cast<size_t>(status.st_size) != size()) {
    ::close(fd_);
    fail("open: rank 0 shares ", status.st_size, " bytes of memory, expected ", size(),
         ": all ranks need the same build and the same backend.buffer_kib");
  }
  map();
}

void Segment::map() {
  void* memory = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) {
    const int problem = errno;
    ::close(fd_);
    fail_with(PL_ERROR_OUT_OF_MEMORY, "open: shared memory cannot be mapped: ", std::strerror(problem));
  }
  base_ = static_cast<char*>(memory);
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(lock_fd_, other.lock_fd_);
  std::swap(world_size_, other.world_size_);
  std::swap(slot_bytes_, other.slot_bytes_);
  std::swap(base_, other.base_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, size());
  if (lock_fd_ >= 0) ::close(lock_fd_);
  if (fd_ >= 0) ::close(fd_);
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

// The lock belongs to an open file, which the kernel closes however the process ends; it works across
// process namespaces, where process ids do not.
void Segment::claim(int32_t rank) {
  lock_fd_ = ::open(concat("/proc/self/fd/", fd_).c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock = lock_of(rank);
  if (lock_fd_ < 0 || ::fcntl(lock_fd_, F_OFD_SETLK, &lock) != 0)
    fail("open: rank ", rank, " cannot be claimed: ", std::strerror(errno), " (is /proc mounted?)");
}

bool Segment::lives(int32_t rank) const {
  struct flock lock = lock_of(rank);
  return ::fcntl(lock_fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace pipeline::backends::shm
