#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

using ResiduePairs = std::vector<std::pair<uint32_t, uint32_t>>;  // places in a and b, ascending in both

// Which residue of one chain is which of another that is nearly the same: the pairing with most identical
// residues, where what is passed over between two pairs costs the same whatever its length, and nothing at
// the ends; a loop that was not seen says nothing. Between equal ones the residues' numbers decide. Chains of
// more than some 10,000 residues are paired by their numbers alone.
ResiduePairs pair_residues(std::span<const Residue> a, std::span<const Residue> b);

// For each residue of the chains, laid end to end, the number of the one that stands for it and its copies:
// the first of them that is known, or the first if none is; its own number where there are no copies. Chains
// are copies of each other if they are equal, or if their best local alignment has at least 90% identical
// residues, and 10 of them: mutants, and copies of which other ends or loops were seen.
std::vector<int64_t> find_copies(std::span<const std::span<const Residue>> chains);

}  // namespace pipeline::protein
