#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace pipeline {

// FNV-1a: the same on every machine and in every version. No protection against deliberate collisions.
constexpr uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for proving that one knows a secret without showing it.
using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view text);
Digest hmac_sha256(std::string_view key, std::string_view text);
std::string to_hex(const Digest& digest);

// Whether two texts are the same, in a time that does not tell where they differ.
bool same_in_constant_time(std::string_view a, std::string_view b);

// 256 bits that nobody can guess, as 64 hexadecimal digits. Throws Error.
std::string random_secret();

}  // namespace pipeline
