#include "plugins/tasks/summarization/rouge/lcs.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace pipeline::rouge {
namespace {

constexpr size_t kWordBits = 64;

}  // namespace

LcsTable::LcsTable(Tokens a, Tokens b)
    : a_(a),
      b_(b),
      words_((b.size() + kWordBits - 1) / kWordBits),
      rows_((a.size() + 1) * words_, ~uint64_t{0}) {
  std::unordered_map<uint32_t, size_t> slot_of;  // token of b -> its bit mask of positions in b
  std::vector<uint64_t> masks;
  for (size_t j = 0; j < b.size(); ++j) {
    const auto [entry, fresh] = slot_of.emplace(b[j], slot_of.size());
    if (fresh) masks.resize(masks.size() + words_);
    masks[entry->second * words_ + j / kWordBits] |= uint64_t{1} << (j % kWordBits);
  }
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t* above = rows_.data() + i * words_;
    uint64_t* row = rows_.data() + (i + 1) * words_;
    const auto entry = slot_of.find(a[i]);
    if (entry == slot_of.end()) {
      std::copy_n(above, words_, row);
      continue;
    }
    const uint64_t* matches = masks.data() + entry->second * words_;
    uint64_t carry = 0;
    for (size_t w = 0; w < words_; ++w) {
      const uint64_t hit = above[w] & matches[w];
      const uint64_t partial = above[w] + hit;
      const uint64_t sum = partial + carry;
      carry = static_cast<uint64_t>(partial < hit) | static_cast<uint64_t>(sum < partial);
      row[w] = sum | (above[w] & ~hit);
    }
  }
}

size_t LcsTable::length(size_t i, size_t j) const {
  const uint64_t* row = rows_.data() + i * words_;
  size_t zeros = 0;
  for (size_t w = 0; w < j / kWordBits; ++w) zeros += static_cast<size_t>(std::popcount(~row[w]));
  if (j % kWordBits != 0) {
    zeros += static_cast<size_t>(std::popcount(~row[j / kWordBits] & ((uint64_t{1} << (j % kWordBits)) - 1)));
  }
  return zeros;
}

std::vector<size_t> LcsTable::positions() const {
  std::vector<size_t> taken;
  size_t i = a_.size(), j = b_.size();
  while (i > 0 && j > 0) {
    if (a_[i - 1] == b_[j - 1]) {
      taken.push_back(--i);
      --j;
    } else if (length(i, j - 1) > length(i - 1, j)) {
      --j;
    } else {
      --i;
    }
  }
  std::reverse(taken.begin(), taken.end());
  return taken;
}

}  // namespace pipeline::rouge
