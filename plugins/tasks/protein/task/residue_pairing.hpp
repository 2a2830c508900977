#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

using ResiduePairs =
    std::vector<std::pair<uint32_t, uint32_t>>;  // (place in a, place in b), ascending in both

// Which residue of one chain is which of another that is nearly the same: the pairing with most identical
// residues, where what is passed over between two pairs costs the same whatever its length, and nothing at
// the ends; a loop that was not seen says nothing. Between equal ones the residues' numbers decide. Chains of
// more than some 10,000 residues are paired by their numbers alone.
ResiduePairs pair_residues(std::span<const Residue> a, std::span<const Residue> b);

}  // namespace pipeline::protein
