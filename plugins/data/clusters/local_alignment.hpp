#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::clusters {

// A sequence as numbers: kAminoAcids' order, kUnknown for every other letter. Upper and lower case are the
// same.
using Letters = std::vector<uint8_t>;
using LetterView = std::span<const uint8_t>;
constexpr size_t kLetters = residues::kAminoAcidCount + 1;

Letters encode_letters(std::string_view sequence);

// BLOSUM62 in half bits (Henikoff and Henikoff 1992, PNAS 89:10915); an unknown residue scores -1 beside
// anything.
extern const std::array<std::array<int8_t, kLetters>, kLetters> kSubstitution;
constexpr int kMaxSubstitution = 11;  // W beside W

// A gap of k residues costs kGapOpen + k kGapExtend: BLAST's defaults for BLOSUM62.
constexpr int kGapOpen = 11, kGapExtend = 1;

// The least score of a local alignment of sequences of m and n residues that chance reaches less than
// `evalue` times in `comparisons` such alignments: E = comparisons K m n exp(-lambda score), with the
// constants of gapped BLOSUM62 11/1 (Altschul et al. 1997, Nucleic Acids Res. 25:3389). Never below 1.
int significant_score(size_t m, size_t n, size_t comparisons, double evalue);

// The best local alignment of two sequences (Smith and Waterman 1981, with Gotoh's affine gaps 1982).
struct LocalAlignment {
  int score = 0;
  uint32_t columns = 0;     // pairs of aligned residues; gaps are not counted
  uint32_t identities = 0;  // identical pairs; an unknown residue is identical to nothing
};

// Longer sequences are beyond the number types used here, and beyond any protein.
constexpr size_t kMaxAlignedLength = 500'000;

// Among alignments of the best score: the one with most identities, and among those the one with most
// columns. The order of a and b does not matter. Time a.size() b.size(), memory b.size(): the counts travel
// with the scores, so nothing is traced back.
LocalAlignment align_locally(LetterView a, LetterView b);

// Scores of the best local alignments of one sequence with up to 16 others at once: each of those has a lane
// of the vector registers, so lanes never wait for each other (Rognes 2011, BMC Bioinformatics 12:221). The
// scores of align_locally, many times faster. One thread at a time may use an object.
class ScoreBatch {
 public:
  static constexpr size_t kLanes = 16;
  using Scores = std::array<int, kLanes>;

  ScoreBatch();
  ~ScoreBatch();
  ScoreBatch(const ScoreBatch&) = delete;
  ScoreBatch& operator=(const ScoreBatch&) = delete;

  // At most kLanes sequences, best of similar length: every lane takes as long as the longest one.
  void set_targets(std::span<const LetterView> targets);

  // The scores of `query` against each target; 0 in the lanes without one.
  Scores scores(LetterView query);

 private:
  template <typename Score>
  struct Lanes;
  std::unique_ptr<Lanes<int16_t>> narrow_;
  std::unique_ptr<Lanes<int32_t>> wide_;  // where 16 bits might not hold the scores
  bool use_wide_ = false;
};

}  // namespace pipeline::clusters
