#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::residues {

// The residues that the letters of a sequence stand for, piece by piece. Capitals and small letters are the
// same; white space is passed over. Gaps ("-" and "." of alignments) and a stop ("*") at the end are left
// out; J, leucine or isoleucine, becomes an unknown residue, as X is one.
class ResidueLetters {
 public:
  void clear();
  void add(std::string_view letters);

  // After the last piece: why this is no sequence of amino acids, for people. Empty: it is one.
  std::string problem() const;

  // The residues as alphabet.hpp numbers them: amino acids, kUnknown, kRareLetters.
  const std::vector<uint8_t>& codes() const { return codes_; }

  // What was odd about the letters.
  enum Oddity : uint8_t { kSmallLetters = 1, kGaps = 2, kStop = 4, kLeucineOrIsoleucine = 8 };
  uint8_t oddities() const { return met_ & (kSmallLetters | kGaps | kStop | kLeucineOrIsoleucine); }
  // Whether all its letters are A, C, G, T, U, N or X.
  bool may_be_nucleic() const { return (met_ & kNoNucleotide) == 0; }

 private:
  static constexpr uint8_t kBad = 16, kNoNucleotide = 32;
  friend struct LetterTable;

  std::vector<uint8_t> codes_;
  uint8_t met_ = 0;
  size_t stop_at_ = SIZE_MAX;  // the number of residues before the first stop
  char bad_ = 0;               // the first character that is none of all these
};

}  // namespace pipeline::residues
