#include "plugins/data/structures/structure.hpp"

#include <gemmi/resinfo.hpp>

#include <algorithm>
#include <iterator>
#include <new>

#include "plugins/data/structures/file_content.hpp"
#include "plugins/data/structures/protein_chains.hpp"

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

uint8_t standard_of(std::string_view name) {
  const auto* three = std::find(std::begin(kThreeLetters), std::end(kThreeLetters), name);
  if (three != std::end(kThreeLetters)) return static_cast<uint8_t>(three - std::begin(kThreeLetters));
  const auto* alias =
      std::find_if(std::begin(kAliases), std::end(kAliases), [&](const Alias& a) { return a.name == name; });
  if (alias != std::end(kAliases)) return residues::number_of(alias->letter);
  if (name.size() == 4 && (name[0] == 'N' || name[0] == 'C')) return standard_of(name.substr(1));
  return residues::kUnknown;
}

// gemmi quotes lines of the file.
std::string one_line(std::string text) {
  constexpr size_t kMost = 200;
  for (char& c : text) c = c == '\n' || c == '\t' ? ' ' : c >= ' ' && c <= '~' ? c : '?';
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string why_no_chain(const ModelParts& model) {
  for (const auto& part : model.parts) {
    for (const auto& residue : part.residues) {
      if (residue_name(residue.name, model.parents).kind >= ResidueName::kModified)
        return "has no protein chain: its amino acids are ligands (HETATM, and not bonded to others)";
    }
  }
  return "has no protein chain: none of its " + std::to_string(model.atoms) +
         " atoms is an amino acid's, as in " + one_line(model.first_atom);
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
    const uint8_t tabulated = residues::number_of(letter);
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

Structure parse_text(std::string_view text) try {
  if (text.empty()) throw files::DataError("is empty");
  if (text.starts_with('>'))
    throw files::DataError("a FASTA file, sequences without structures: structures are PDB or mmCIF files");
  const ModelParts model = is_cif(text) ? read_cif_parts(text) : read_pdb_parts(text);
  Structure structure = protein_chains(model);
  if (structure.chains.empty()) throw files::DataError(why_no_chain(model));
  for (const auto& remark : model.remarks)
    structure.remark += (structure.remark.empty() ? "" : "; ") + one_line(remark);
  return structure;
} catch (const files::DataError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw ReadError("needs more memory than there is", ReadError::kPassing);
} catch (const std::exception& error) {
  throw files::DataError("cannot be parsed: " + one_line(error.what()));
}

uint64_t memory_to_parse(std::string_view text) {
  constexpr uint64_t kTimesMmcif = 11, kTimesPdb = 2;  // as measured: mmCIF is read as a whole
  return text.size() * (is_cif(text) ? kTimesMmcif : kTimesPdb);
}

Structure parse_structure(std::string_view content, const ReadLimits& limits) try {
  std::string unpacked;
  return parse_text(unpack(content, limits, unpacked));
} catch (const std::bad_alloc&) {
  throw ReadError("needs more memory than there is", ReadError::kPassing);
}

Structure read_structure(const std::string& path, const ReadLimits& limits) try {
  return parse_structure(read_content(path, limits).bytes, limits);
} catch (const files::DataError& error) {
  throw files::DataError(path + ": " + error.what(), error.code());
}

}  // namespace pipeline::structures
