#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace pipeline {

inline std::uint32_t struct_size_of(const void* from) {
  std::uint32_t size = 0;
  std::memcpy(&size, from, sizeof size);
  return size;
}

// Receives a struct that begins with struct_size from the other side of the ABI: a shorter one is filled up
// with zeros, of a longer one the unknown part is left out. struct_size of the copy says how much was
// received.
template <class T>
T copy_and_extend(const void* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(offsetof(T, struct_size) == 0);
  T copy{};
  const std::size_t size = std::min<std::size_t>(struct_size_of(from), sizeof(T));
  if (size >= sizeof(std::uint32_t)) std::memcpy(static_cast<void*>(&copy), from, size);
  copy.struct_size = static_cast<std::uint32_t>(size);
  return copy;
}

// True if a longer options struct sets something that this program does not know; such a struct is refused.
template <class T>
bool has_unknown_part(const T* from) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(T); i < from->struct_size; ++i)
    if (bytes[i] != 0) return true;
  return false;
}

// A struct to be filled in by the other side.
template <class T>
T sized() {
  T out{};
  out.struct_size = sizeof(T);
  return out;
}

}  // namespace pipeline
