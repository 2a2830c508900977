#pragma once

#include <cstdint>
#include <string_view>

namespace pipeline::text {

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

}  // namespace pipeline::text
