#include "backends/common/call.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace pipeline::backends {
namespace {

// Conversions between half precisions and float32: exact to float32; from it rounded to nearest, ties to
// even. Without branches, so that loops over them are vectorised.

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

float float16_to_float(uint16_t half) {
  const uint32_t magnitude = (half & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & 0x0f800000u;
  const uint32_t normal = magnitude + ((127u - 15u) << 23);
  const uint32_t infinite = normal + ((128u - 16u) << 23);
  const auto subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(normal + (1u << 23)) - 0x1p-14f);
  const uint32_t bits = exponent == 0x0f800000u ? infinite : exponent == 0 ? subnormal : normal;
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

uint16_t float_to_float16(float value) {
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

// How elements of a dtype are read, combined and written.
template <class T>
struct Plain {
  using Element = T;
  using Sum = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct BFloat16 {
  using Element = uint16_t;
  using Sum = float;
  static float load(uint16_t bits) { return bfloat16_to_float(bits); }
  static uint16_t store(float value) { return float_to_bfloat16(value); }
};
struct Float16 {
  using Element = uint16_t;
  using Sum = float;
  static float load(uint16_t bits) { return float16_to_float(bits); }
  static uint16_t store(float value) { return float_to_float16(value); }
};
struct Bool {
  using Element = uint8_t;
  using Sum = uint8_t;
  static uint8_t load(uint8_t value) { return value != 0 ? 1 : 0; }
  static uint8_t store(uint8_t value) { return value != 0 ? 1 : 0; }
};

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
};
struct Or {
  uint8_t operator()(uint8_t a, uint8_t b) const { return a | b; }
};
template <bool kMinimum>
struct Extreme {
  template <class T>
  T operator()(T a, T b) const {
    const T chosen = kMinimum == (a < b) ? a : b;
    if constexpr (std::is_floating_point_v<T>) return std::isnan(a) || std::isnan(b) ? a + b : chosen;
    return chosen;
  }
};

template <class Type, class Op>
void combine(typename Type::Element* out, std::span<const void* const> inputs, uint64_t count, Op op) {
  using Element = typename Type::Element;
  typename Type::Sum sums[kReduceBlock];
  for (uint64_t begin = 0; begin < count; begin += kReduceBlock) {
    const uint64_t size = std::min(kReduceBlock, count - begin);
    const auto* first = static_cast<const Element*>(inputs[0]) + begin;
    for (uint64_t i = 0; i < size; ++i) sums[i] = Type::load(first[i]);
    for (size_t r = 1; r < inputs.size(); ++r) {
      const auto* next = static_cast<const Element*>(inputs[r]) + begin;
      for (uint64_t i = 0; i < size; ++i) sums[i] = op(sums[i], Type::load(next[i]));
    }
    for (uint64_t i = 0; i < size; ++i) out[begin + i] = Type::store(sums[i]);
  }
}

template <class Type>
void reduce_as(void* out, std::span<const void* const> inputs, uint64_t count, uint32_t reduce) {
  auto* typed = static_cast<typename Type::Element*>(out);
  if (reduce == PL_REDUCE_MIN)
    combine<Type>(typed, inputs, count, Extreme<true>());
  else if (reduce == PL_REDUCE_MAX)
    combine<Type>(typed, inputs, count, Extreme<false>());
  else if constexpr (std::is_same_v<Type, Bool>)
    combine<Type>(typed, inputs, count, Or());
  else
    combine<Type>(typed, inputs, count, Add());
}

using Reducer = void (*)(void*, std::span<const void* const>, uint64_t, uint32_t);

template <class Signed, class Unsigned>
Reducer integer(bool is_signed) {
  return is_signed ? reduce_as<Plain<Signed>> : reduce_as<Plain<Unsigned>>;
}

// NULL: there is none.
Reducer reducer(pl_dtype dtype) {
  const bool is_signed = dtype.code == PL_DTYPE_INT;
  if (dtype.lanes != 1) return nullptr;
  if (dtype.code == PL_DTYPE_BOOL) return dtype.bits == 8 ? reduce_as<Bool> : nullptr;
  if (dtype.code == PL_DTYPE_BFLOAT) return dtype.bits == 16 ? reduce_as<BFloat16> : nullptr;
  if (dtype.code == PL_DTYPE_FLOAT) {
    if (dtype.bits == 16) return reduce_as<Float16>;
    if (dtype.bits == 32) return reduce_as<Plain<float>>;
    return dtype.bits == 64 ? reduce_as<Plain<double>> : nullptr;
  }
  if (!is_signed && dtype.code != PL_DTYPE_UINT) return nullptr;
  switch (dtype.bits) {
    case 8:
      return integer<int8_t, uint8_t>(is_signed);
    case 16:
      return integer<int16_t, uint16_t>(is_signed);
    case 32:
      return integer<int32_t, uint32_t>(is_signed);
    case 64:
      return integer<int64_t, uint64_t>(is_signed);
    default:
      return nullptr;
  }
}

}  // namespace

bool can_reduce(pl_dtype dtype) { return reducer(dtype) != nullptr; }

void reduce_in_order(void* out, std::span<const void* const> inputs, uint64_t count, pl_dtype dtype,
                     uint32_t reduce) {
  reducer(dtype)(out, inputs, count, reduce);
}

}  // namespace pipeline::backends
