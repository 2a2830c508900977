#include "plugins/tasks/protein/data/pdb_numbers.hpp"

#include <algorithm>
#include <string_view>

#include "plugins/tasks/protein/data/pdb_columns.hpp"

namespace pipeline::protein {

using namespace pdb;

int PdbNumbers::of(const char* columns, bool backbone, bool part_ended, uint64_t line_number) {
  const std::string_view atom(columns, kWidth);
  if (const auto number = residue_number(atom.substr(kNumber, 4))) {
    number_ = *number;
    residue_.clear();
    return number_;
  }
  std::string residue(atom.substr(kResidueName, kNumber - kResidueName));
  residue += atom.substr(kInsertion, 1);
  residue += atom.substr(kSegment, 4);
  const std::string name(atom.substr(kName, kAltloc - kName));
  const char altloc = atom[kAltloc];
  const auto is_same = [&](const auto& other) {
    return other.first == name && (other.second == altloc || other.second == ' ' || altloc == ' ');
  };
  const bool again = backbone && std::any_of(its_atoms_.begin(), its_atoms_.end(), is_same);
  if (part_ended || again || residue != residue_) {
    ++number_;
    residue_ = std::move(residue);
    its_atoms_.clear();
    if (counted_++ == 0) first_line_ = line_number;
    remark_ = std::to_string(counted_) + (counted_ == 1 ? " residue has" : " residues have") +
              " no readable number, the first in line " + std::to_string(first_line_) +
              ": counted on from the one before";
  }
  if (backbone) its_atoms_.emplace_back(name, altloc);
  return number_;
}

}  // namespace pipeline::protein
