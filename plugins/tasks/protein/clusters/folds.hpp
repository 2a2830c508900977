#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pipeline::protein {

// A fold, from 0, for each cluster, so that the folds have about the same number of residues: the largest
// cluster first, always to the fold that has fewest (Graham's LPT rule: the fullest fold is at most a third
// over the best possible). Among equals the lower number goes first. There may be more folds than clusters;
// some are then empty. Throws files::DataError if `folds` is 0.
std::vector<uint32_t> assign_folds(std::span<const uint64_t> cluster_residues, uint32_t folds);

}  // namespace pipeline::protein
