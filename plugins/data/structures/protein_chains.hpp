#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gemmi/model.hpp>

#include "plugins/data/structures/structure.hpp"

namespace pipeline::structures {

// The first model of a file as its two formats give it: backbone atoms (and at least one atom of every
// residue that may be an amino acid), without most of the water. Each chain is one part of a chain: what lies
// together in the file without an end of chain (TER), a change of chain, segment or mmCIF's label_asym_id, or
// a number that goes back. Atoms keep their alternate locations. Every residue has a number: one that has
// none in the file counts on from the one before.
struct ModelParts {
  std::vector<gemmi::Chain> parts;  // .name: the author's name of the chain; residues' .segment and
                                    // .label_seq where the file has them
  ParentNames parents;
  uint64_t atoms = 0;      // those left out too
  std::string first_atom;  // and where: `line 5, "ATOM      1  N   ALA A   1"`; the first that is not
                           // water's, if there is one
  std::vector<std::string> remarks;  // what is odd about the file, although it can be used
};

// Both functions throw std::exception (gemmi's, or DataError) with a reason. (In a PDB file, what gemmi's own
// reader would fail at or misread is put right: pdb_reader.cpp.)
ModelParts read_pdb_parts(std::string_view text);
ModelParts read_cif_parts(std::string_view text);

// Whether the text is (mm)CIF: the first thing in it that is no comment is a data block.
bool is_cif(std::string_view text);

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

}  // namespace pipeline::structures
