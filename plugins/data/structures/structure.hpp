// What is kept of a structure: for each residue of its protein chains the amino acid and the backbone.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::protein {

// Amino acids are numbered in the order of their one-letter codes.
constexpr std::string_view kAminoAcids = "ACDEFGHIKLMNPQRSTVWY";
constexpr uint8_t kAminoAcidCount = 20;
constexpr uint8_t kUnknown = 20;  // a residue, but none of the twenty and no modification of one

// The tokens that a model of proteins sees: amino acids, kUnknown, and behind them the mask.
constexpr int64_t kMaskToken = kUnknown + 1, kTokenCount = kMaskToken + 1;

// Behind these, letters of sequences that are none of the twenty: D or N, pyrrolysine, selenocysteine, E or
// Q. A model that has no tokens for them sees kUnknown.
constexpr std::string_view kRareLetters = "BOUZ";
constexpr int64_t kFirstRare = kTokenCount, kCodeCount = kFirstRare + 4;

constexpr char letter_of(uint8_t amino_acid) {
  return amino_acid < kAminoAcidCount                          ? kAminoAcids[amino_acid]
         : amino_acid >= kFirstRare && amino_acid < kCodeCount ? kRareLetters[amino_acid - kFirstRare]
                                                               : 'X';
}

struct Vec3 {
  float x = 0, y = 0, z = 0;  // ångström
};
inline Vec3 operator-(const Vec3& a, const Vec3& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
inline float dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// As it lies in the cache: no pointers, no padding.
struct Residue {
  enum Flags : uint8_t { kHasCa = 1, kHasFrame = 2 };  // kHasFrame: N, CA and C are all there

  uint8_t amino_acid = kUnknown;
  uint8_t flags = 0;
  char insertion = ' ';  // insertion code
  uint8_t reserved = 0;
  int32_t number = 0;    // as in the file; one on from the residue before where it has none there
  int32_t position = 0;  // along the chain from 0: one more than the residue before, and more where residues
                         // are missing in between
  Vec3 n, ca, c;         // zero where missing

  bool has_ca() const { return (flags & kHasCa) != 0; }
  bool has_frame() const { return (flags & kHasFrame) != 0; }
};
static_assert(sizeof(Residue) == 48);

struct Chain {
  std::string name;
  std::vector<Residue> residues;
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
  uint8_t amino_acid = kUnknown;
};

// Names are those of the PDB, of force fields (HSD, HIE, CYX, LYSH ...) and of Amber's ends of chains (NALA,
// CGLY).
ResidueName residue_name(const std::string& name, const ParentNames& parents);

// The PDB's name of an amino acid: "ALA" ...
std::string_view three_letters_of(uint8_t amino_acid);

// Names are compared in upper case.
constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_water_name(std::string_view name);

}  // namespace pipeline::protein
