#include "tests/backends/values.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "core/base/abi_values.hpp"

namespace pipeline::tests {
namespace {

// Half precisions by their definition, one bit pattern at a time; whole numbers and their sums only need
// what is normal.
double from_half(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  if (exponent == 0 && fraction == 0) return 0;
  const double magnitude =
      std::ldexp(1.0 + std::ldexp(fraction, -fraction_bits), exponent - ((1 << (exponent_bits - 1)) - 1));
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

std::uint16_t to_half(double value, int exponent_bits) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits)
    if (from_half(static_cast<std::uint16_t>(bits), exponent_bits) == value)
      return static_cast<std::uint16_t>(bits);
  throw std::invalid_argument("not a half: " + std::to_string(value));
}

std::uint16_t to_half_cached(double value, int exponent_bits) {
  static thread_local std::uint16_t cache[2][512];
  static thread_local bool known[2][512];
  const auto slot = static_cast<std::size_t>(exponent_bits == 8);
  const auto at = static_cast<std::size_t>(value + 256);
  if (!known[slot][at]) cache[slot][at] = to_half(value, exponent_bits);
  known[slot][at] = true;
  return cache[slot][at];
}

// Calls f with a value of the C++ type that holds one element.
template <class F>
auto with_type(pl_dtype dtype, F&& f) {
  if (dtype.code == PL_DTYPE_FLOAT && dtype.bits == 64) return f(double());
  if (dtype.code == PL_DTYPE_FLOAT && dtype.bits == 32) return f(float());
  if (dtype.code == PL_DTYPE_INT && dtype.bits == 64) return f(std::int64_t());
  if (dtype.code == PL_DTYPE_INT && dtype.bits == 32) return f(std::int32_t());
  if (dtype.code == PL_DTYPE_UINT && dtype.bits == 8) return f(std::uint8_t());
  throw std::invalid_argument("dtype without a type");
}

int half_exponent_bits(pl_dtype dtype) {
  if (dtype.bits != 16) return 0;
  return dtype.code == PL_DTYPE_BFLOAT ? 8 : 5;
}

}  // namespace

const std::vector<NamedDtype>& every_dtype() {
  static const std::vector<NamedDtype> all{
      {"float32", {PL_DTYPE_FLOAT, 32, 1}}, {"float64", {PL_DTYPE_FLOAT, 64, 1}},
      {"float16", {PL_DTYPE_FLOAT, 16, 1}}, {"bfloat16", {PL_DTYPE_BFLOAT, 16, 1}},
      {"int32", {PL_DTYPE_INT, 32, 1}},     {"int64", {PL_DTYPE_INT, 64, 1}},
      {"uint8", {PL_DTYPE_UINT, 8, 1}}};
  return all;
}

pl_buffer Values::part(std::uint64_t begin, std::uint64_t count) {
  auto buffer = sized<pl_buffer>();
  buffer.data = bytes_.data() + begin * width();
  buffer.count = count;
  buffer.dtype = dtype_;
  buffer.device = {PL_DEVICE_CPU, 0};
  return buffer;
}

void Values::set(std::uint64_t index, double value) {
  unsigned char* at = bytes_.data() + index * width();
  if (const int exponent_bits = half_exponent_bits(dtype_)) {
    const std::uint16_t bits = to_half_cached(value, exponent_bits);
    std::memcpy(at, &bits, sizeof bits);
    return;
  }
  with_type(dtype_, [&](auto type) {
    const auto element = static_cast<decltype(type)>(value);
    std::memcpy(at, &element, sizeof element);
  });
}

double Values::get(std::uint64_t index) const {
  const unsigned char* at = bytes_.data() + index * width();
  if (const int exponent_bits = half_exponent_bits(dtype_)) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return from_half(bits, exponent_bits);
  }
  return with_type(dtype_, [&](auto element) {
    std::memcpy(&element, at, sizeof element);
    return static_cast<double>(element);
  });
}

}  // namespace pipeline::tests
