#pragma once

#include <gemmi/model.hpp>

#include <optional>
#include <vector>

#include "plugins/tasks/protein/data/residue_name.hpp"
#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein {

// A residue that may be one of a protein's: what is around it decides (protein_chains.hpp).
struct Candidate {
  Residue residue;  // all but its position
  ResidueName::Kind kind;
  bool het;           // written as HETATM
  bool has_n, has_c;  // atoms that are there, whether or not N, CA and C make a frame
  std::optional<int>
      label;  // mmCIF's label_seq_id: the place in the whole sequence, residues that were not seen included
  size_t part = 0;  // of the chain
  Vec3 n, c;        // as far as they are there
};

// The candidates of one part of a chain, in its order. Of the alternate locations of a residue, the names at
// one place included, the one with the highest sum of occupancies of N, CA and C is taken, and no atom of
// another; of equal ones the first letter. Atoms that are not finite or further than 1e5 Å from the origin
// count as missing.
std::vector<Candidate> candidates_of(const gemmi::Chain& part, const ParentNames& parents);

// Whether a peptide bond joins them: C and N within 2.5 Å; where one of the two is missing, neighbouring
// numbers and CA within 4.5 Å.
bool bonded(const Candidate& first, const Candidate& second);

// Whether the number of `second` is the one after that of `first`, or the same with another insertion code.
bool numbered_on(const Candidate& first, const Candidate& second);

}  // namespace pipeline::protein
