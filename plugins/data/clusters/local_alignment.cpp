#include "plugins/data/clusters/local_alignment.hpp"

#include <algorithm>
#include <cmath>

namespace pipeline::clusters {
namespace {

// BLOSUM62 as published: the lower triangle, in its own order.
constexpr std::string_view kOrder = "ARNDCQEGHILKMFPSTWYV";
constexpr int8_t kTriangle[] = {
    4,                                                                               // A
    -1, 5,                                                                           // R
    -2, 0,  6,                                                                       // N
    -2, -2, 1,  6,                                                                   // D
    0,  -3, -3, -3, 9,                                                               // C
    -1, 1,  0,  0,  -3, 5,                                                           // Q
    -1, 0,  0,  2,  -4, 2,  5,                                                       // E
    0,  -2, 0,  -1, -3, -2, -2, 6,                                                   // G
    -2, 0,  1,  -1, -3, 0,  0,  -2, 8,                                               // H
    -1, -3, -3, -3, -1, -3, -3, -4, -3, 4,                                           // I
    -1, -2, -3, -4, -1, -2, -3, -4, -3, 2,  4,                                       // L
    -1, 2,  0,  -1, -3, 1,  1,  -2, -1, -3, -2, 5,                                   // K
    -1, -1, -2, -3, -1, 0,  -2, -3, -2, 1,  2,  -1, 5,                               // M
    -2, -3, -3, -3, -2, -3, -3, -3, -1, 0,  0,  -3, 0,  6,                           // F
    -1, -2, -2, -1, -3, -1, -1, -2, -2, -3, -3, -1, -2, -4, 7,                       // P
    1,  -1, 1,  0,  -1, 0,  0,  0,  -1, -2, -2, 0,  -1, -2, -1, 4,                   // S
    0,  -1, 0,  -1, -1, -1, -1, -2, -2, -1, -1, -1, -1, -2, -1, 1,  5,               // T
    -3, -3, -4, -4, -2, -2, -3, -2, -2, -3, -2, -3, -1, 1,  -4, -3, -2, 11,          // W
    -2, -2, -2, -3, -2, -1, -2, -3, 2,  -1, -1, -2, -1, 3,  -3, -2, -2, 2,  7,       // Y
    0,  -3, -3, -3, -1, -2, -2, -3, -3, 3,  1,  -2, 1,  -1, -2, -2, 0,  -3, -1, 4};  // V
static_assert(std::size(kTriangle) == 20 * 21 / 2);

constexpr double kLambda = 0.267, kK = 0.041;

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
      cells[a][b] = kSubstitution[a][b] * kScore + (a == b && a != residues::kUnknown ? kIdentity : 0) + 1;
    }
  }
  return cells;
}();

struct AlignmentState {
  Cell best = 0;  // score of the best alignment that ends here (H)
  Cell gap = 0;   // score of one that ends in a gap, for the next residue of a (E); below 1 it never wins
};

}  // namespace

constinit const std::array<std::array<int8_t, kLetters>, kLetters> kSubstitution = [] {
  std::array<std::array<int8_t, kLetters>, kLetters> matrix{};
  for (auto& row : matrix) row.fill(-1);
  const int8_t* next = kTriangle;
  for (size_t i = 0; i < kOrder.size(); ++i) {
    for (size_t j = 0; j <= i; ++j, ++next) {
      const size_t a = residues::number_of(kOrder[i]), b = residues::number_of(kOrder[j]);
      matrix[a][b] = matrix[b][a] = *next;
    }
  }
  return matrix;
}();

Letters encode_letters(std::string_view sequence) {
  Letters letters(sequence.size());
  std::ranges::transform(sequence, letters.begin(), residues::number_of);
  return letters;
}

int significant_score(size_t m, size_t n, size_t comparisons, double evalue) {
  if (m == 0 || n == 0) return 1;
  const double space = kK * static_cast<double>(m) * static_cast<double>(n) *
                       static_cast<double>(std::max<size_t>(comparisons, 1));
  // Strictly more often than `evalue` by chance: not enough.
  return static_cast<int>(std::clamp(std::floor(std::log(space / evalue) / kLambda) + 1, 1.0, 1e9));
}

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

}  // namespace pipeline::clusters
