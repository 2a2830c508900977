// Writes small PDB files. Residue number i of a chain stands at x = 3.8 i, so that neighbours are bonded:
// C(i) to N(i+1) is 1.35 Å.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/data/structures/file_content.hpp"
#include "plugins/data/structures/structure.hpp"
#include "tests/support/test_files.hpp"

namespace pipeline::structures {

struct Place {
  char chain = 'A';
  int number = 1;
  char insertion = ' ';
  double x = -1;  // in steps of 3.8 Å; below zero: the number
  double y = 0;   // Å, added
};

struct Style {
  const char* record = "ATOM";
  char altloc = ' ';
  double occupancy = 1;
  std::vector<std::string> atoms = {"N", "CA", "C", "O"};
  std::string segment = "";
};

inline std::string atom_line(const std::string& name, const std::string& residue, const Place& place,
                             double x, double y, const Style& style) {
  char line[128];
  const std::string padded = name.size() < 4 ? " " + name : name;
  std::snprintf(line, sizeof line, "%-6s%5d %-4s%c%3s %c%4d%c   %8.3f%8.3f%8.3f%6.2f%6.2f      %-4s%2c\n",
                style.record, 1, padded.c_str(), style.altloc, residue.c_str(), place.chain, place.number,
                place.insertion, x, y, 0.0, style.occupancy, 20.0, style.segment.c_str(), name[0]);
  return line;
}

inline std::string residue(const std::string& name, const Place& place, const Style& style = {}) {
  const double x = (place.x < 0 ? place.number : place.x) * 3.8;
  std::string text;
  for (const auto& atom : style.atoms) {
    const auto [dx, dy] = atom == "N"    ? std::pair{0.0, 0.0}
                          : atom == "CA" ? std::pair{1.2, 0.8}
                          : atom == "C"  ? std::pair{2.45, 0.0}
                                         : std::pair{2.5, -1.2};
    text += atom_line(atom, name, place, x + dx, place.y + dy, style);
  }
  return text;
}

// Residues with these names, numbered from `first`.
inline std::string peptide(const std::vector<std::string>& names, char chain = 'A', int first = 1,
                           const Style& style = {}) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += residue(names[i], {.chain = chain, .number = first + static_cast<int>(i)}, style);
  return text;
}

inline Structure parse(std::string_view text) { return parse_structure(text, {}); }

inline std::string sequence_of(const Chain& chain) {
  std::string letters;
  for (const auto& r : chain.residues) letters += residues::letter_of(r.amino_acid);
  return letters;
}

inline std::vector<int> positions_of(const Chain& chain) {
  std::vector<int> positions;
  for (const auto& r : chain.residues) positions.push_back(r.position);
  return positions;
}

inline std::vector<int> numbers_of(const Chain& chain) {
  std::vector<int> numbers;
  for (const auto& r : chain.residues) numbers.push_back(r.number);
  return numbers;
}

// "A:AGS B:AG"; the chains' names and sequences, or the error.
inline std::string summary_of(std::string_view text) {
  try {
    std::string summary;
    for (const auto& chain : parse(text).chains)
      summary += (summary.empty() ? "" : " ") + chain.name + ":" + sequence_of(chain);
    return summary;
  } catch (const files::DataError& error) {
    return error.what();
  }
}

}  // namespace pipeline::structures
