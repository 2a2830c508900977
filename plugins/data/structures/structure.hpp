// What is kept of a structure: for each residue of its protein chains the amino acid and the backbone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/residues/residue.hpp"

namespace pipeline::structures {

struct ReadLimits;  // file_content.hpp

struct Chain {
  std::string name;
  std::vector<residues::Residue> residues;
};

struct Structure {
  std::vector<Chain> chains;  // with at least one residue each
  std::string remark;         // what is odd about the file, although it can be used; empty if nothing is
};

// The standard residues that a file says its modified residues come from, by name.
using ParentNames = std::map<std::string, std::string, std::less<>>;

// What a residue's name says about it.
struct ResidueName {
  enum Kind : uint8_t {
    kNotProtein,  // water, nucleic acids, sugars
    kOther,       // not known: part of a protein only if its atoms and its place say so
    kModified,    // an amino acid that is not one of the twenty; amino_acid is its parent, or kUnknown
    kStandard,    // one of the twenty, in one of their names
  };
  Kind kind = kOther;
  uint8_t amino_acid = residues::kUnknown;
};

// Names are those of the PDB, of force fields (HSD, HIE, CYX, LYSH ...) and of Amber's ends of chains (NALA,
// CGLY).
ResidueName residue_name(const std::string& name, const ParentNames& parents);

// The PDB's name of an amino acid: "ALA" ...
std::string_view three_letters_of(uint8_t amino_acid);

// Names are compared in upper case.
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_water_name(std::string_view name);

// To be raised whenever the same file gives other residues: what was parsed before is then parsed again.
constexpr uint32_t kParserVersion = 2;

// The protein chains (protein_chains.hpp) of the first model in the content of a PDB or mmCIF file, plain or
// packed with gzip: what it is decides, not its name. Throws DataError with a reason of one line that does
// not name the file. [any-thread]
Structure parse_structure(std::string_view content, const ReadLimits& limits);

// parse_structure() for what unpack() gave, and about how many bytes of memory it takes besides the text.
Structure parse_text(std::string_view text);
uint64_t memory_to_parse(std::string_view text);

// parse_structure() for a file; the error starts with its path.
Structure read_structure(const std::string& path, const ReadLimits& limits);

}  // namespace pipeline::structures
