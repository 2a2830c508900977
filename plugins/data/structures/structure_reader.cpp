#include "plugins/data/structures/structure_reader.hpp"

#include <algorithm>
#include <new>

#include "plugins/data/structures/protein_chains.hpp"

namespace pipeline::structures {
namespace {

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
