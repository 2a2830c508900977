#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

// For each residue of the chains, laid end to end, the number of the one that stands for it and its copies:
// the first of them that is known, or the first if none is; its own number where there are no copies. Chains
// are copies of each other if they are equal, or if their best local alignment has at least 90% identical
// residues, and 10 of them: mutants, and copies of which other ends or loops were seen.
std::vector<int64_t> find_copies(std::span<const std::span<const Residue>> chains);

}  // namespace pipeline::protein
