#include "backends/shm/segment.hpp"

#include <pipeline/error.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace pipeline::backends::shm {
namespace {

constexpr size_t kPage = 4096;

size_t up_to(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

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
