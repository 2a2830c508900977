#include "plugins/data/structures/structure.hpp"

#include <gemmi/resinfo.hpp>

#include <algorithm>
#include <iterator>

namespace pipeline::structures {
namespace {

constexpr std::string_view kThreeLetters[] = {"ALA", "CYS", "ASP", "GLU", "PHE", "GLY", "HIS",
                                              "ILE", "LYS", "LEU", "MET", "ASN", "PRO", "GLN",
                                              "ARG", "SER", "THR", "VAL", "TRP", "TYR"};
static_assert(std::size(kThreeLetters) == residues::kAminoAcidCount);

// Protonation states and bonds, as Amber, CHARMM, GROMOS and OPLS name them.
struct Alias {
  std::string_view name;
  char letter;
};
constexpr Alias kAliases[] = {
    {"ARGN", 'R'}, {"ARN", 'R'},  {"ASH", 'D'},  {"ASPH", 'D'}, {"ASPP", 'D'}, {"CYM", 'C'},  {"CYN", 'C'},
    {"CYS1", 'C'}, {"CYS2", 'C'}, {"CYSH", 'C'}, {"CYX", 'C'},  {"GLH", 'E'},  {"GLUH", 'E'}, {"GLUP", 'E'},
    {"HID", 'H'},  {"HIE", 'H'},  {"HIP", 'H'},  {"HIS1", 'H'}, {"HIS2", 'H'}, {"HISA", 'H'}, {"HISB", 'H'},
    {"HISD", 'H'}, {"HISE", 'H'}, {"HISH", 'H'}, {"HISP", 'H'}, {"HSD", 'H'},  {"HSE", 'H'},  {"HSP", 'H'},
    {"LSN", 'K'},  {"LYN", 'K'},  {"LYP", 'K'},  {"LYSH", 'K'}, {"LYSN", 'K'}, {"TYM", 'Y'},
};

uint8_t number_of(char letter) {
  const size_t at = residues::kAminoAcids.find(letter);
  return at == std::string_view::npos ? residues::kUnknown : static_cast<uint8_t>(at);
}

uint8_t standard_of(std::string_view name) {
  const auto* three = std::find(std::begin(kThreeLetters), std::end(kThreeLetters), name);
  if (three != std::end(kThreeLetters)) return static_cast<uint8_t>(three - std::begin(kThreeLetters));
  const auto* alias =
      std::find_if(std::begin(kAliases), std::end(kAliases), [&](const Alias& a) { return a.name == name; });
  if (alias != std::end(kAliases)) return number_of(alias->letter);
  if (name.size() == 4 && (name[0] == 'N' || name[0] == 'C')) return standard_of(name.substr(1));
  return residues::kUnknown;
}

}  // namespace

ResidueName residue_name(const std::string& name, const ParentNames& parents) {
  if (const uint8_t standard = standard_of(name); standard != residues::kUnknown)
    return {ResidueName::kStandard, standard};
  if (is_water_name(name)) return {ResidueName::kNotProtein, residues::kUnknown};
  const auto given = parents.find(name);
  const uint8_t parent = given == parents.end() ? residues::kUnknown : standard_of(given->second);
  const gemmi::ResidueInfo info = gemmi::find_tabulated_residue(name);
  if (info.is_amino_acid()) {
    const char letter = static_cast<char>(info.one_letter_code & ~0x20);  // in lower case if it is modified
    const uint8_t tabulated = number_of(letter);
    // Selenocysteine and pyrrolysine, whatever a file calls their parents.
    const bool own_kind = letter == 'U' || letter == 'O';
    return {ResidueName::kModified, tabulated != residues::kUnknown || own_kind ? tabulated : parent};
  }
  if (parent != residues::kUnknown) return {ResidueName::kModified, parent};
  using Kind = decltype(info.kind);  // the type has moved between versions of gemmi
  const bool sugar = info.kind == Kind::PYR || info.kind == Kind::KET;
  return {info.is_water() || info.is_nucleic_acid() || sugar ? ResidueName::kNotProtein : ResidueName::kOther,
          residues::kUnknown};
}

std::string_view three_letters_of(uint8_t amino_acid) {
  return amino_acid < residues::kAminoAcidCount ? kThreeLetters[amino_acid] : "UNK";
}

bool is_water_name(std::string_view name) {
  constexpr std::string_view kNames[] = {"HOH",  "WAT",  "SOL",  "TIP", "DOD", "H2O", "SPC",
                                         "TIP3", "TIP4", "TIP5", "TP3", "T3P", "T4P"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

}  // namespace pipeline::structures
