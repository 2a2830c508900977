// Values as they cross the ABI: strings, structs of another size, names of element types.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "pipeline.h"

namespace pipeline {

// The view lives as long as the characters it was made from.
inline pl_str to_pl(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(pl_str text) {
  return text.len == 0 || !text.ptr ? std::string_view() : std::string_view(text.ptr, text.len);
}

inline uint32_t struct_size_of(const void* from) {
  uint32_t size = 0;
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
  const size_t size = std::min<size_t>(struct_size_of(from), sizeof(T));
  if (size >= sizeof(uint32_t)) std::memcpy(static_cast<void*>(&copy), from, size);
  copy.struct_size = static_cast<uint32_t>(size);
  return copy;
}

// A struct to be filled in by the other side.
template <class T>
T sized() {
  T out{};
  out.struct_size = sizeof(T);
  return out;
}

// What people call the element types of tensors: "float32", "bfloat16", "int64".
inline std::string dtype_name(pl_dtype dtype) {
  const char* const kind = dtype.code == PL_DTYPE_INT      ? "int"
                           : dtype.code == PL_DTYPE_UINT   ? "uint"
                           : dtype.code == PL_DTYPE_FLOAT  ? "float"
                           : dtype.code == PL_DTYPE_BFLOAT ? "bfloat"
                           : dtype.code == PL_DTYPE_BOOL   ? "bool"
                                                           : "unknown";
  return kind + std::to_string(dtype.bits);
}

// The dtype as train.precision names it: "fp32", "bf16"; its dtype_name() where that has no name for it.
inline std::string precision_name(pl_dtype dtype) {
  if (dtype.code == PL_DTYPE_FLOAT) return "fp" + std::to_string(dtype.bits);
  return dtype.code == PL_DTYPE_BFLOAT ? "bf" + std::to_string(dtype.bits) : dtype_name(dtype);
}

// The value of a bfloat16, whose bits are the upper half of a float32's.
inline float widened(uint16_t bfloat16) { return std::bit_cast<float>(uint32_t{bfloat16} << 16); }

}  // namespace pipeline
