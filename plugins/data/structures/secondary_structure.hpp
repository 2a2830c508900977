// Labels that follow from a chain's backbone.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plugins/data/residues/residue.hpp"

namespace pipeline::structures {

// Secondary structure as Q3 counts it: of DSSP's eight states, H, G and I are helices, E and B strands.
enum class SecondaryStructure : uint8_t { kHelix, kStrand, kCoil, kNotKnown };
constexpr char letter_of(SecondaryStructure state) { return "HEC-"[static_cast<size_t>(state)]; }

// The state of each residue of a chain, by the hydrogen bonds between its backbone's CO and NH (Kabsch and
// Sander, Biopolymers 22, 2577, 1983): helices are turns of 3, 4 or 5 residues behind one another, strands
// are bridges. Bonds to other chains do not count. O and H are put where the peptide's plane has them.
// kNotKnown: without a whole backbone.
std::vector<SecondaryStructure> secondary_structure_of(std::span<const residues::Residue> chain);

// Pairs (i, j), i < j, of residues of a chain whose CB are nearer than 8 Å, where j is at least `apart`
// residues further along: the contacts that predictions are judged by (CASP). CB is put where the backbone
// has it, for glycine, too. Ascending.
std::vector<std::pair<uint32_t, uint32_t>> contacts_of(std::span<const residues::Residue> chain,
                                                       int32_t apart);

}  // namespace pipeline::structures
