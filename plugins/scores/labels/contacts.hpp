// How ranked contacts of residues are judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipeline::labels {

constexpr int64_t kLongRange = 24;  // positions apart (CASP)

// How well a chain's contacts are ranked: of the L likeliest pairs (L: its residues), of L / 2 and of L / 5
// the share that are contacts (CASP's precision), of all pairs and of those at least 24 residues apart; the
// same of the L pairs that are nearest to each other along the chain; and the area under the ROC curve. NaN
// where there are no such pairs, or no contacts among them.
enum ContactFigure : size_t {
  kTopL,
  kTopL2,
  kTopL5,
  kLongL,
  kLongL2,
  kLongL5,
  kNearestL,
  kArea,
  kContactFigures
};
// (L, L) log-odds, and kContact, kNoContact or kNoPair; positions: of each residue along the chain.
std::vector<float> contact_figures(std::span<const float> log_odds, std::span<const uint8_t> labels,
                                   std::span<const int64_t> positions);

}  // namespace pipeline::labels
