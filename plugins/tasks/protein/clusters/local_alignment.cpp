#include "plugins/tasks/protein/clusters/local_alignment.hpp"

#include <algorithm>
#include <array>

namespace pipeline::protein {

namespace {

// Score, identities and columns in one number that compares in this order: the score times 2^40, the
// identities times 2^20, the columns. Sums of such numbers are sums of each, so the recurrences of the score
// alone hold for all three.
using Cell = int64_t;
constexpr int kFieldBits = 20;
constexpr Cell kScore = Cell{1} << (2 * kFieldBits), kIdentity = Cell{1} << kFieldBits,
               kField = kIdentity - 1;
constexpr Cell kGapOpened = kScore * (kGapOpen + kGapExtend), kGapExtended = kScore * kGapExtend;
static_assert(kMaxAlignedLength <= static_cast<size_t>(kField));
static_assert(kMaxAlignedLength * kMaxSubstitution < (size_t{1} << (62 - 2 * kFieldBits)) * 2);

using Row = std::array<Cell, kLetters>;
using Cells = std::array<Row, kLetters>;
const Cells kCells = [] {
  Cells cells;
  for (uint8_t a = 0; a < kLetters; ++a) {
    for (uint8_t b = 0; b < kLetters; ++b) {
      cells[a][b] = kSubstitution[a][b] * kScore + (a == b && a != kUnknown ? kIdentity : 0) + 1;
    }
  }
  return cells;
}();

struct AlignmentState {
  Cell best = 0;  // of alignments that end here (H)
  Cell gap = 0;   // of those that end in a gap, for the next residue of a (E); below one point it never wins
};

}  // namespace

LocalAlignment align_locally(LetterView a, LetterView b) {
  std::vector<AlignmentState> states(b.size());
  Cell best = 0;
  for (const uint8_t letter : a) {
    const Row& scores = kCells[letter];
    Cell diagonal = 0, gap = 0;  // gap: along b (F)
    for (size_t j = 0; j < b.size(); ++j) {
      AlignmentState& state = states[j];
      Cell cell = std::max({diagonal + scores[b[j]], state.gap, gap});
      if (cell < kScore) cell = 0;  // no score: an alignment starts after this, without counts
      diagonal = state.best;
      state.best = cell;
      state.gap = std::max(state.gap - kGapExtended, cell - kGapOpened);
      gap = std::max(gap - kGapExtended, cell - kGapOpened);
      best = std::max(best, cell);
    }
  }
  return {static_cast<int>(best / kScore), static_cast<uint32_t>(best & kField),
          static_cast<uint32_t>(best / kIdentity & kField)};
}

}  // namespace pipeline::protein
