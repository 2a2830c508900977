#pragma once

#include <cstdint>
#include <string_view>

namespace pipeline {

// FNV-1a: the same on every machine and in every version. Not against anybody who looks for collisions.
constexpr uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

}  // namespace pipeline
