#include "plugins/tasks/protein/task/residue_pairing.hpp"

#include <algorithm>

namespace pipeline::protein {
namespace {

constexpr int32_t kIdentical = 4, kSameNumber = 2;
constexpr int32_t kJump = 4;  // so that even one residue behind a loop is paired, if its number is the same
constexpr int32_t kNeither = -5;                // residues with nothing in common are rather passed over
constexpr size_t kMostCells = size_t{1} << 27;  // a byte each

bool same_number(const Residue& a, const Residue& b) {
  return a.number == b.number && a.insertion == b.insertion;
}

int32_t score_of(const Residue& a, const Residue& b) {
  const bool identical = a.amino_acid == b.amino_acid && a.amino_acid < kAminoAcidCount,
             same = same_number(a, b);
  return identical || same ? (identical ? kIdentical : 0) + (same ? kSameNumber : 0) : kNeither;
}

ResiduePairs pair_by_number(std::span<const Residue> a, std::span<const Residue> b) {
  ResiduePairs pairs;
  for (uint32_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (same_number(a[i], b[j])) {
      pairs.emplace_back(i++, j++);
    } else {
      ++(a[i].number <= b[j].number ? i : j);
    }
  }
  return pairs;
}

// What a cell (i, j) remembers: what the best pairing that ends with the pair (i, j) had before it, and where
// among the cells up to (i, j) the best pairing ends.
enum Cell : uint8_t { kNext = 1, kJumped = 2, kEndsHere = 4, kEndsAbove = 8 };

}  // namespace

ResiduePairs pair_residues(std::span<const Residue> a, std::span<const Residue> b) {
  if (a.empty() || b.empty()) return {};
  if (a.size() > kMostCells / b.size()) return pair_by_number(a, b);
  const size_t columns = b.size();
  std::vector<uint8_t> cells(a.size() * columns);
  // Of the row above, each one place on: pairings that end in the cell, and the best of all cells up to it.
  std::vector<int32_t> ends(columns + 1), best(columns + 1);
  for (size_t i = 0; i < a.size(); ++i) {
    int32_t diagonal = 0, corner = 0, left = 0;
    for (size_t j = 0; j < columns; ++j) {
      uint8_t& cell = cells[i * columns + j];
      const int32_t before = std::max({diagonal, corner - kJump, 0});
      cell = before == 0 ? 0 : before == diagonal ? kNext : kJumped;
      const int32_t here = before + score_of(a[i], b[j]), above = best[j + 1];
      diagonal = ends[j + 1], corner = above;
      ends[j + 1] = here;
      cell |= here >= std::max(above, left) ? kEndsHere : above >= left ? kEndsAbove : 0;
      left = best[j + 1] = std::max({here, above, left});
    }
  }
  ResiduePairs pairs;
  size_t i = a.size(), j = columns;  // one more than the places
  for (bool jumped = true; i > 0 && j > 0;) {
    const uint8_t cell = cells[(i - 1) * columns + j - 1];
    if (jumped && (cell & kEndsHere) == 0) {
      --((cell & kEndsAbove) != 0 ? i : j);
      continue;
    }
    pairs.emplace_back(static_cast<uint32_t>(--i), static_cast<uint32_t>(--j));
    if ((cell & (kNext | kJumped)) == 0) break;
    jumped = (cell & kJumped) != 0;
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace pipeline::protein
