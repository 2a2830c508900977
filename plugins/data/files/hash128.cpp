#include "plugins/data/files/hash128.hpp"

#include <algorithm>
#include <bit>

namespace pipeline::files {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kBlock = 16;
constexpr uint64_t kC1 = 0x87c37b91114253d5, kC2 = 0x4cf5ad432745937f;

uint64_t mix_low(uint64_t k) { return std::rotl(k * kC1, 31) * kC2; }
uint64_t mix_high(uint64_t k) { return std::rotl(k * kC2, 33) * kC1; }

uint64_t finalize(uint64_t k) {
  k = (k ^ (k >> 33)) * 0xff51afd7ed558ccd;
  k = (k ^ (k >> 33)) * 0xc4ceb9fe1a85ec53;
  return k ^ (k >> 33);
}

}  // namespace

std::string Hash128::hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint64_t half : {low, high}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(half >> shift) & 15];
  }
  return text;
}

void Hasher128::mix(const char* block) {
  uint64_t k1, k2;
  std::memcpy(&k1, block, 8);
  std::memcpy(&k2, block + 8, 8);
  auto& [h1, h2] = state_;
  h1 = (std::rotl(h1 ^ mix_low(k1), 27) + h2) * 5 + 0x52dce729;
  h2 = (std::rotl(h2 ^ mix_high(k2), 31) + h1) * 5 + 0x38495ab5;
}

Hasher128& Hasher128::update(std::string_view bytes) {
  if (bytes.empty()) return *this;  // the pointer may be null
  total_ += bytes.size();
  if (rest_size_ > 0) {
    const size_t taken = std::min(kBlock - rest_size_, bytes.size());
    std::memcpy(rest_ + rest_size_, bytes.data(), taken);
    rest_size_ += taken;
    bytes.remove_prefix(taken);
    if (rest_size_ < kBlock) return *this;
    mix(rest_);
    rest_size_ = 0;
  }
  for (; bytes.size() >= kBlock; bytes.remove_prefix(kBlock)) mix(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_);
  rest_size_ = bytes.size();
  return *this;
}

Hash128 Hasher128::finish() const {
  char last[kBlock] = {};
  std::memcpy(last, rest_, rest_size_);
  uint64_t k1, k2;
  std::memcpy(&k1, last, 8);
  std::memcpy(&k2, last + 8, 8);
  auto [h1, h2] = state_;
  if (rest_size_ > 8) h2 ^= mix_high(k2);
  if (rest_size_ > 0) h1 ^= mix_low(k1);
  h1 ^= total_;
  h2 ^= total_;
  h1 += h2;
  h2 += h1;
  h1 = finalize(h1);
  h2 = finalize(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

}  // namespace pipeline::files
