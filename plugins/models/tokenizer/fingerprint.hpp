#pragma once

#include <cstdint>
#include <string_view>

#include "tokenizer/added_tokens.hpp"

namespace pipeline::tokenizer {

// FNV-1a, 64 bits.
class Fingerprint {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) value_ = (value_ ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  }
  void add(uint64_t number) {
    for (int i = 0; i < 8; ++i) value_ = (value_ ^ (number >> (8 * i) & 0xff)) * 0x100000001b3;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

// Nothing where the token is found as "<|endoftext|>" is, so that keys of caches stay what they were.
inline void hash_matching(int32_t id, const Matching& how, Fingerprint& hash) {
  if (how.is_special && !how.takes_left && !how.takes_right) return;
  hash.add(static_cast<uint64_t>(id));
  for (const bool flag : {how.is_special, how.is_normalized, how.takes_left, how.takes_right})
    hash.add(uint64_t{flag});
}

}  // namespace pipeline::tokenizer
