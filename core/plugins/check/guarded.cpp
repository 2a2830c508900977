#include "core/plugins/check/guarded.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"

namespace pipeline::plugins {
namespace {

constexpr size_t kGuard = 65536, kAlignment = 64;  // bytes; kGuard: a multiple of every page's size
constexpr std::byte kBeside{0xff};                 // four of them are a NaN in float32, two in bf16

}  // namespace

Guarded::Guarded(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t used = (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  const size_t open = (used + kAlignment + page - 1) / page * page;
  mapped_ = open + 2 * kGuard;
  void* map = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED || ::mprotect(static_cast<std::byte*>(map) + kGuard, open, PROT_READ | PROT_WRITE))
    throw Error(fmt::format("no memory for {} bytes of a parameter: {}", bytes, std::strerror(errno)));
  map_ = static_cast<std::byte*>(map);
  data_ = map_ + kGuard + open - used;
  std::fill(map_ + kGuard, data_, kBeside);
  std::fill(data_ + bytes, map_ + kGuard + open, kBeside);
}

Guarded& Guarded::operator=(Guarded&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  std::swap(map_, other.map_);
  std::swap(data_, other.data_);
  return *this;
}

Guarded::~Guarded() {
  if (map_) ::munmap(map_, mapped_);
}

std::string Guarded::written_beside() const {
  if (!map_) return {};
  const auto is_left = [](std::byte value) { return value == kBeside; };
  if (!std::all_of(map_ + kGuard, data_, is_left)) return "in front of";
  return std::all_of(data_ + bytes_, map_ + mapped_ - kGuard, is_left) ? "" : "behind";
}

}  // namespace pipeline::plugins
