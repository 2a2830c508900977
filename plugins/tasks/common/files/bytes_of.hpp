#pragma once

#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

namespace pipeline::files {

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

}  // namespace pipeline::files
