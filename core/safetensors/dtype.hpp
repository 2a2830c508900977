#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pipeline::safetensors {

// Element types that the format knows. Sub-byte types are packed, least significant bits first.
enum class Dtype : uint8_t {
  kBool,
  kU8,
  kI8,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,  //
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view dtype_name(Dtype dtype);  // as written in the header: "F32", "BF16", "BOOL"
int dtype_bits(Dtype dtype);               // bits per element
std::optional<Dtype> dtype_from_name(std::string_view name);

}  // namespace pipeline::safetensors
