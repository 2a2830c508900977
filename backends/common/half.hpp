// Conversions between half precisions and float32: exact to float32; from it rounded to nearest, ties to
// even. Without branches, so that loops over them are vectorised.
#pragma once

#include <bit>
#include <cstdint>

namespace pipeline::backends {

inline float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

inline float float16_to_float(uint16_t half) {
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & 0x0f800000u;
  const uint32_t normal = magnitude + ((127u - 15u) << 23);
  const uint32_t infinite = normal + ((128u - 16u) << 23);
  const auto subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(normal + (1u << 23)) - 0x1p-14f);
  const uint32_t bits = exponent == 0x0f800000u ? infinite : exponent == 0 ? subnormal : normal;
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

inline uint16_t float_to_float16(float value) {
  const auto all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (all & 0x80000000u) >> 16;
  const uint32_t bits = all & 0x7fffffffu;
  // Adding 0.5 leaves a subnormal's digits, rounded, in the last bits.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  const uint32_t beyond = bits > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t half = bits >= (143u << 23) ? beyond : bits < (113u << 23) ? subnormal : normal;
  return static_cast<uint16_t>(half | sign);
}

}  // namespace pipeline::backends
