#pragma once

#include "plugins/tasks/protein/clusters/substitution.hpp"

namespace pipeline::protein {

// The best local alignment of two sequences (Smith and Waterman 1981, with Gotoh's affine gaps 1982).
struct LocalAlignment {
  int score = 0;
  uint32_t columns = 0;     // that pair two residues; gaps are not counted
  uint32_t identities = 0;  // of them; an unknown residue is identical to nothing
};

// Longer ones are beyond the numbers used here, and beyond any protein.
constexpr size_t kMaxAlignedLength = 500'000;

// Among alignments of the best score: the one with most identities, and among those the one with most
// columns. The order of a and b does not matter. Time a.size() b.size(), memory b.size(): the counts travel
// with the scores, so nothing is traced back.
LocalAlignment align_locally(LetterView a, LetterView b);

}  // namespace pipeline::protein
