#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

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
  // update() with its length before it, so that what follows cannot be taken for a part of it.
  Hasher128& update_text(std::string_view text) {
    return update(std::to_string(text.size()) + ":").update(text);
  }
  Hash128 finish() const;

 private:
  void mix(const char* block);

  Hash128 state_;
  char rest_[16];  // bytes that do not fill a block yet
  size_t rest_size_ = 0;
  uint64_t total_ = 0;
};

inline Hash128 hash128(std::string_view bytes) { return Hasher128().update(bytes).finish(); }

// The bytes of a value without padding, or of a vector of such values, where they lie: to be hashed or
// written.
template <class T>
requires std::is_trivially_copyable_v<T> std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
template <class T>
requires std::is_trivially_copyable_v<T> std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Takes a value off the start of the bytes; false if they are too few.
template <class T>
requires std::is_trivially_copyable_v<T>
bool take(std::string_view& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return true;
}

// A text with its length before it; and such a text, taken off the start of the bytes, or false.
inline void put_text(std::string& out, std::string_view text) {
  out.append(bytes_of(uint64_t{text.size()})).append(text);
}
inline bool take_text(std::string_view& bytes, std::string& text) {
  uint64_t size = 0;
  if (!take(bytes, size) || size > bytes.size()) return false;
  text = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return true;
}

}  // namespace pipeline::files

template <>
struct std::hash<pipeline::files::Hash128> {
  size_t operator()(const pipeline::files::Hash128& of) const { return of.low; }
};
