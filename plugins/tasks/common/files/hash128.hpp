#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace pipeline::files {

struct Hash128 {
  uint64_t low = 0, high = 0;
  bool operator==(const Hash128&) const = default;
  std::string hex() const;  // 32 digits, low first
};

// MurmurHash3_x64_128 (A. Appleby, public domain) with seed 0, fed piece by piece: fast, well spread, and not
// meant against forgers.
class Hasher128 {
 public:
  Hasher128& update(std::string_view bytes);
  Hash128 finish() const;

 private:
  void mix(const char* block);

  Hash128 state_;
  char rest_[16];  // bytes that do not fill a block yet
  size_t rest_size_ = 0;
  uint64_t total_ = 0;
};

inline Hash128 hash128(std::string_view bytes) { return Hasher128().update(bytes).finish(); }

}  // namespace pipeline::files
