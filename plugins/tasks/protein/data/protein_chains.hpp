#pragma once

#include "plugins/tasks/protein/data/model_parts.hpp"
#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

// The protein chains of a model.
//
// Chains: parts of one name make one chain (a chain's hetero groups come after its end), unless a later part
// has residue numbers that are there already: a copy of the chain, named "A-2". A chain without a name is
// named after its segment where segments differ; parts without any name are chains of their own ("", "2",
// ...) unless a peptide bond joins them.
//
// Residues: amino acids, and what has N, CA and C and is bonded to a neighbour. One written as HETATM counts
// only if it is bonded to a neighbour or lies among the part's ATOM residues; else it is a ligand.
//
// Residue::position: by mmCIF's label_seq_id where the file gives it; else one on for a residue that is
// bonded to the one before or has the next number (the same with another insertion code); else as far on as
// the numbers are apart if that is 1 to 1000; else 2 on.
Structure protein_chains(const ModelParts& model);

}  // namespace pipeline::protein
