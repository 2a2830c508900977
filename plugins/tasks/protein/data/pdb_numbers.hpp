#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pipeline::protein {

// The numbers of residues of a PDB file. Those that have none, or one that does not fit ("****"), count on
// from the one before.
class PdbNumbers {
 public:
  // For the columns of an atom. Such a residue ends where the part that it is in does, where the name
  // changes, or where an atom of the backbone comes again, unless both have letters of alternate locations,
  // and not the same.
  int of(const char* atom, bool backbone, bool part_ended, uint64_t line_number);

  const std::string& remark() const { return remark_; }  // for the user; empty if all had a number

 private:
  int number_ = 0;       // of the residue before
  std::string residue_;  // its name, chain and segment if it has no number, else empty
  std::vector<std::pair<std::string, char>> its_atoms_;  // of its backbone, with their alternate locations
  uint64_t counted_ = 0, first_line_ = 0;
  std::string remark_;
};

}  // namespace pipeline::protein
