#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace pipeline::tokenizer {

// Tokens of the pieces met lately: most text is the same few thousand words. One entry per slot, the newer
// piece wins; pieces and token lists that do not fit into an entry are not kept. One cache serves all
// tokenizers of a thread.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 24;
  static constexpr size_t kMaxTokens = 8;

  struct alignas(64) Entry {        // one cache line
    std::array<uint64_t, 3> bytes;  // of the piece, then zeros
    uint32_t owner;                 // the tokenizer, 0: free
    uint8_t size;
    uint8_t count;
    std::array<int32_t, kMaxTokens> ids;

    bool holds(const Entry& key) const {
      return bytes == key.bytes && owner == key.owner && size == key.size;
    }
    std::span<const int32_t> tokens() const { return {ids.data(), count}; }
    void assign(const Entry& key, std::span<const int32_t> tokens) {
      bytes = key.bytes;
      owner = key.owner;
      size = key.size;
      count = static_cast<uint8_t>(tokens.size());
      std::ranges::copy(tokens, ids.begin());
    }
  };

  // What to compare and to assign entries with; the piece has at most kMaxBytes.
  static Entry key(std::string_view piece, uint32_t owner) {
    Entry key;
    key.bytes = {};
    std::memcpy(key.bytes.data(), piece.data(), piece.size());
    key.owner = owner;
    key.size = static_cast<uint8_t>(piece.size());
    return key;
  }

  // The one slot where this key can be.
  Entry& slot(const Entry& key) {
    uint64_t hash = (key.bytes[0] ^ key.owner) * 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 32) ^ key.bytes[1]) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ (hash >> 32) ^ key.bytes[2]) * 0x94d049bb133111eb;
    return entries_[hash >> (64 - kSlotBits)];
  }

  // The calling thread's own.
  static WordCache& of_this_thread() {
    static thread_local WordCache cache;
    return cache;
  }

 private:
  static constexpr int kSlotBits = 14;  // 1 MiB: the second-level cache of a core

  std::unique_ptr<Entry[]> entries_ = std::make_unique<Entry[]>(size_t{1} << kSlotBits);
};

}  // namespace pipeline::tokenizer
