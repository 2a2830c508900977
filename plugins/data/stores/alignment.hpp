#pragma once

#include <cstddef>
#include <cstdint>

namespace pipeline::stores {

// Everything in a file begins at multiples of this.
constexpr size_t kAlignment = 8;

constexpr uint64_t padded(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace pipeline::stores
