// Masks of samples: residues that are copies of each other are masked together, since one would give the
// other away.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/tasks/protein/task/masking.hpp"
#include "plugins/tasks/protein/task/sample.hpp"
#include "plugins/tasks/protein/task/scoring.hpp"

namespace pipeline::protein {

// As a mask is to see them: copies are unknown, so that they are not drawn. unknown_too: residues that are
// unknown can be drawn.
std::vector<uint8_t> amino_acids_to_mask(const Sample& sample, bool unknown_too = false);

// `masking`, drawn from amino_acids_to_mask(), with what follows for copies: they are targets where what
// stands for them is, and look like it; one that is shown as it is in one place is so in all. Copies that are
// not known are no targets.
Masking with_copies(Masking masking, const Sample& sample);

// For each residue in which of a sample's scoring passes it is masked; kNoGroup: in none.
using ScoringGroups = std::vector<uint32_t>;
ScoringGroups scoring_groups_of(const Sample& sample, uint64_t groups, uint64_t seed,
                                bool unknown_too = false);

// The residues first .. first + count - 1 of the sample, those of `group` masked. Targets are those from
// residue `score` on.
Masking mask_group(const Sample& sample, const ScoringGroups& groups, const ScoringPass& pass);

}  // namespace pipeline::protein
