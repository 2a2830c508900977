#pragma once

#include <cstdint>
#include <vector>

namespace pipeline::protein {

// A forward pass of an evaluation: the residues first .. first + count - 1 of a sample, of which those from `score` on may be targets, masked by
// one of the groups that all residues are dealt out to.
struct ScoringPass {
  uint64_t sample = 0;
  int64_t first = 0, count = 0, score = 0;
  uint64_t group = 0;
};

// Passes that make every residue of every sample a target once. lengths: of the samples. Longer ones than `most` are looked at in pieces, the
// last of which overlaps the one before it. Group after group, so that the first passes are over different samples.
std::vector<ScoringPass> scoring_passes(const std::vector<int64_t>& lengths, int64_t most, uint64_t groups);

}  // namespace pipeline::protein
