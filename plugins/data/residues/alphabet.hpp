// Amino acids as numbers, the tokens that models see, and letters.
#pragma once

#include <cstdint>
#include <string_view>

namespace pipeline::residues {

// Amino acids are numbered in the order of their one-letter codes.
constexpr std::string_view kAminoAcids = "ACDEFGHIKLMNPQRSTVWY";
constexpr uint8_t kAminoAcidCount = 20;
constexpr uint8_t kUnknown = 20;  // a residue, but none of the twenty and no modification of one

// The tokens that a model of proteins sees: amino acids, kUnknown, and behind them the mask.
constexpr int64_t kMaskToken = kUnknown + 1, kTokenCount = kMaskToken + 1;

// Behind these, letters of sequences that are none of the twenty: D or N, pyrrolysine, selenocysteine, E or
// Q. A model that has no tokens for them sees kUnknown.
constexpr std::string_view kRareLetters = "BOUZ";
constexpr int64_t kFirstRare = kTokenCount, kCodeCount = kFirstRare + 4;

constexpr char letter_of(uint8_t amino_acid) {
  return amino_acid < kAminoAcidCount                          ? kAminoAcids[amino_acid]
         : amino_acid >= kFirstRare && amino_acid < kCodeCount ? kRareLetters[amino_acid - kFirstRare]
                                                               : 'X';
}

}  // namespace pipeline::residues
