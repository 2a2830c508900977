// The lines of a PDB file, and the columns of an atom's: https://www.wwpdb.org/documentation/file-format,
// "Coordinate Section".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipeline::structures::pdb {

// Columns from 0.
constexpr size_t kName = 12, kAltloc = 16, kResidueName = 17, kChain = 20, kNumber = 22, kInsertion = 26,
                 kX = 30, kEnd = 54, kOccupancy = 54, kSegment = 72;
constexpr size_t kWidth = 76;  // up to the segment's name; what comes after is not needed

constexpr uint32_t four(const char* text) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(text[i]);
  return value;
}

// The line's first four letters in upper case, as four() gives them; blanks where it is shorter.
uint32_t record_of(std::string_view line);

// The first line without its end, which is taken off `rest`.
std::string_view take_line(std::string_view& rest);

std::string_view trimmed(std::string_view text);

bool is_backbone(std::string_view atom_name);  // N, CA or C, in any case

double number_in(std::string_view field);  // NaN for what is none

// A residue's number: decimal, or hybrid-36 (A000 is 10,000: https://cci.lbl.gov/hybrid_36).
std::optional<int> residue_number(std::string_view field);

// The numbers of residues of a PDB file. Those that have none, or one that does not fit ("****"), count on
// from the one before.
class PdbNumbers {
 public:
  // The number for an atom's columns. A residue without one ends where the part that it is in does, where the
  // name changes, or where an atom of the backbone comes again, unless both have letters of alternate
  // locations, and not the same.
  int of(const char* atom, bool backbone, bool part_ended, uint64_t line_number);

  const std::string& remark() const { return remark_; }  // for the user; empty if all had a number

 private:
  int number_ = 0;       // of the residue before
  std::string residue_;  // its name, chain and segment if it has no number, else empty
  std::vector<std::pair<std::string, char>> its_atoms_;  // of its backbone, with their alternate locations
  uint64_t counted_ = 0, first_line_ = 0;
  std::string remark_;
};

}  // namespace pipeline::structures::pdb
