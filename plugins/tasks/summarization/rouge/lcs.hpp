#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipeline::rouge {

// Tokens as small numbers; equal tokens have equal numbers.
using Tokens = std::span<const uint32_t>;

// The table of longest common subsequences of every prefix of `a` with every prefix of `b`, one bit a cell:
// H. Hyyro, "Bit-parallel LCS-length computation revisited" (2004). 64 cells are computed at a time, and |a|
// x |b| / 8 bytes hold what the plain table holds in as many integers. `b` must outlive the object.
class LcsTable {
 public:
  LcsTable(Tokens a, Tokens b);

  // Length of the longest common subsequence of a[0, i) and b[0, j).
  size_t length(size_t i, size_t j) const;
  size_t length() const { return length(a_.size(), b_.size()); }

  // The positions in `a` of one longest common subsequence, ascending. Which one, where there are several, is
  // part of ROUGE-Lsum's definition: from the end, a match is taken; else the last token of `b` is dropped if
  // that is strictly better than dropping that of `a`.
  std::vector<size_t> positions() const;

 private:
  Tokens a_, b_;
  size_t words_;  // 64-bit words in a row
  // (|a| + 1) rows; bit j of row i is 0 where length(i, j + 1) = length(i, j) + 1.
  std::vector<uint64_t> rows_;
};

}  // namespace pipeline::rouge
