#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace pipeline::tokenizer {

// The rank of a pair that does not merge: greater than any other.
inline constexpr uint32_t kNoRank = 0xffffffff;

// Finds the merge of a pair of tokens: an open hash with linear probing, at most half full.
class PairTable {
 public:
  struct Entry {
    int32_t left;
    int32_t right;
    uint32_t rank;  // kNoRank: free
    int32_t result;
  };

  explicit PairTable(std::span<const Merge> merges)
      : shift_(64 - std::bit_width(merges.size() * 2 + 1)),
        entries_(size_t{1} << (64 - shift_), Entry{0, 0, kNoRank, 0}) {
    uint32_t rank = 0;
    for (const Merge& merge : merges) {
      size_t slot = slot_of(merge.left, merge.right);
      while (entries_[slot].rank != kNoRank) slot = (slot + 1) & (entries_.size() - 1);
      entries_[slot] = {merge.left, merge.right, rank++, merge.result};
    }
  }

  // An entry whose rank is kNoRank where the pair does not merge.
  const Entry& find(int32_t left, int32_t right) const {
    size_t slot = slot_of(left, right);
    while (entries_[slot].rank != kNoRank && (entries_[slot].left != left || entries_[slot].right != right)) {
      slot = (slot + 1) & (entries_.size() - 1);
    }
    return entries_[slot];
  }

 private:
  size_t slot_of(int32_t left, int32_t right) const {
    const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15) >> shift_);  // 2^64 / golden ratio
  }

  int shift_;
  std::vector<Entry> entries_;
};

// Merges neighbours in a text's first tokens: the pair with the best merge, the leftmost of equals, until no
// pair has one. Adds what is left. Time grows with n log n.
void merge_all(const PairTable& pairs, std::span<const int32_t> tokens, std::vector<int32_t>& ids);

// Byte-pair encoding of one piece of text: its bytes become tokens, then the pair with the best merge, the
// leftmost of equals, becomes one token, until no pair has a merge. Bytes without a token are left out. A
// special token that is left is its two parts: merges make longer words of it, but not it. Const and safe for
// any thread.
class BpeModel {
 public:
  // The vocabulary must outlive the model.
  explicit BpeModel(const Vocabulary& vocabulary);

  // Adds the tokens of a non-empty piece. Time grows with n log n.
  void encode_append(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  void encode_any(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_short(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_long(std::string_view piece, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view piece, std::vector<int32_t>& ids) const;

  PairTable pairs_;
  std::array<int32_t, 256> byte_ids_;  // kNoToken: none
  bool ends_words_;                    // the last byte of a piece has another token:
  std::array<int32_t, 256> last_ids_;
  std::unordered_map<std::string_view, int32_t> wholes_;  // where merges are ignored: tokens by their bytes
  std::unordered_map<int32_t, Merge> special_;            // the merges that make special tokens, by those
};

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
