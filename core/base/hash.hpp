#pragma once

#include <array>
#include <bit>
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

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection in which every input bit reaches every output
// bit.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The only source of randomness of a run: a pure function of its arguments, 64 well-mixed bits. Streams keep
// uses apart ("shuffle", "dropout", "initialize"); a, b, c say which epoch, step, parameter. Part of a run's
// results: its values never change.
constexpr uint64_t derive_seed(uint64_t seed, std::string_view stream, uint64_t a = 0, uint64_t b = 0,
                               uint64_t c = 0) {
  uint64_t state = 0;
  // For a given state a bijection of the value, so that two different values never meet.
  for (const uint64_t value : {seed, fnv1a(stream), a, b, c}) state = mix(state ^ mix(value));
  return state;
}

// A random order of 0..size-1 that can be asked for any position without being stored, so that the data order
// is a pure function of a key at any size. A balanced Feistel network over the smallest even number of bits
// that covers `size`, walked until it lands inside (Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", 2002). Part of a run's results: its values never change.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t key)
      : size_(size),
        key_(key),
        half_bits_((static_cast<unsigned>(std::bit_width(size > 1 ? size - 1 : 1)) + 1) / 2) {}

  uint64_t size() const { return size_; }

  // The element at `position` (< size). Thread-safe.
  uint64_t operator()(uint64_t position) const {
    do position = encrypt(position);
    while (position >= size_);  // fewer than four turns on average: the domain is at most 4 x size
    return position;
  }

 private:
  // Small domains need many rounds: with 4 the orders of ten elements are visibly uneven.
  static constexpr unsigned kRounds = 12;

  uint64_t encrypt(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = value >> half_bits_, right = value & mask;
    for (unsigned round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mix(key_ ^ mix(right + (uint64_t{round} << 40))) & mask);
      left = right;
      right = next;
    }
    return (left << half_bits_) | right;
  }

  uint64_t size_;
  uint64_t key_;
  unsigned half_bits_;
};

}  // namespace pipeline
