// Which residues a model has to predict, and what it is shown in their place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pipeline::protein {

struct MaskingOptions {
  double ratio = 0.15;  // of the residues that are known; one at least
  double random = 0.1;  // share of the targets shown as a random amino acid (Devlin et al. 2019, BERT: 0.1)
  double keep = 0.1;    // share of them shown as they are
  double span = 1;      // mean length of the stretches that are targets together
};

// What the model gets: for each residue the token it sees, and whether it is a target.
struct Masking {
  std::vector<int64_t> tokens;
  std::vector<uint8_t> is_target;
};

// For training: a function of (amino acids, chains, options, seed). Unknown residues are never targets.
// `chains`: which chain each residue is of; a stretch ends with its chain.
Masking mask_for_training(std::span<const uint8_t> amino_acids, std::span<const int64_t> chains,
                          const MaskingOptions& options, uint64_t seed);

// For scoring: the known residues are dealt out to `groups` at random, which are masked one after another.
// The group of each residue, kNoGroup of those that are not known. With fewer residues than groups the last
// groups are empty.
constexpr uint32_t kNoGroup = UINT32_MAX;
std::vector<uint32_t> deal_to_groups(std::span<const uint8_t> amino_acids, uint64_t groups, uint64_t seed);

// As many groups as hide the same share at a time as training does.
uint64_t scoring_groups(double ratio);

}  // namespace pipeline::protein
