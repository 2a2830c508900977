#pragma once

#include <gemmi/model.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/protein/data/residue_name.hpp"

namespace pipeline::protein {

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

// Both throw std::exception (gemmi's, or DataError) with a reason. (In a PDB file, what gemmi's own reader
// would fail at or misread is put right: pdb_reader.cpp.)
ModelParts read_pdb_parts(std::string_view text);
ModelParts read_cif_parts(std::string_view text);

// Whether the text is (mm)CIF: the first thing in it that is no comment is a data block.
bool is_cif(std::string_view text);

}  // namespace pipeline::protein
