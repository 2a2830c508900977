#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pipeline::protein {

// A forward pass of an evaluation: the residues first .. first + count - 1 of a sample, of which those from
// `score` on may be targets, masked by one of the groups that all residues are dealt out to.
struct ScoringPass {
  uint64_t sample = 0;
  int64_t first = 0, count = 0, score = 0;
  uint32_t group = 0;
};

// The passes of one sample that make each of its residues a target once, group after group; none is without
// targets. group_of: of each residue (ScoringGroups). A sample longer than `most` is looked at in pieces, the
// last of which overlaps the one before it.
std::vector<ScoringPass> scoring_passes(uint64_t sample, std::span<const uint32_t> group_of, int64_t most);

// The same where the residues are not at hand: a sample of `length` residues, no more than `most`, of which
// `targets` are dealt out to `groups`.
std::vector<ScoringPass> scoring_passes(uint64_t sample, int64_t length, uint64_t targets, uint64_t groups);

// Of all samples, group after group, so that the first passes are over different samples.
void order_by_group(std::vector<ScoringPass>& passes);

}  // namespace pipeline::protein
