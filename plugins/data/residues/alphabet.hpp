// Amino acids as numbers, the tokens that models see, and letters.
#pragma once

#include <array>
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

// task.objective: what a model is to learn of residues. Masked residues are no label.
inline constexpr const char *kMasked = "masked", *kRegression = "regression",
                            *kClassification = "classification", *kContacts = "contacts";

// What a pair of residues is; kNoPair: nothing is known, or it is too near along the chain to count.
constexpr uint8_t kNoContact = 0, kContact = 1, kNoPair = 2;
// Contacts are judged, and learnt, of residues that are so many positions apart or more: nearer ones follow
// from the chain alone (CASP's short, medium and long range together).
constexpr int32_t kLeastApart = 6;

// The number of an amino acid's letter, capital or small; kUnknown of others.
constexpr std::array<uint8_t, 256> kNumbers = [] {
  std::array<uint8_t, 256> numbers{};
  for (uint8_t& number : numbers) number = kUnknown;
  for (size_t i = 0; i < kAminoAcids.size(); ++i) {
    const auto capital = static_cast<unsigned char>(kAminoAcids[i]);
    numbers[capital] = numbers[capital - 'A' + 'a'] = static_cast<uint8_t>(i);
  }
  return numbers;
}();
constexpr uint8_t number_of(char letter) { return kNumbers[static_cast<unsigned char>(letter)]; }

}  // namespace pipeline::residues
