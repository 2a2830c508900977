#pragma once

#include <optional>

#include "plugins/tasks/protein/clusters/substitution.hpp"

namespace pipeline::protein {

// For each sequence that `is_short` marks, the first of all sequences that is longer and contains it residue
// by residue; else nothing. One, not all: four residues are found in many unrelated proteins, which must not
// be joined by them. Sequences without residues are in none.
std::vector<std::optional<uint32_t>> find_containing(const std::vector<Letters>& sequences,
                                                     const std::vector<bool>& is_short);

}  // namespace pipeline::protein
