#include <gemmi/cif.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/atom_site.hpp"

namespace pipeline::protein {
namespace {

namespace cif = gemmi::cif;
void read_parents(cif::Block& block, ParentNames& parents) {
  for (const auto& [category, tags] :
       {std::pair{"_chem_comp.", std::vector<std::string>{"id", "mon_nstd_parent_comp_id"}},
        {"_pdbx_struct_mod_residue.", {"label_comp_id", "parent_comp_id"}}}) {
    for (const auto row : block.find(category, tags)) {
      const auto name = plain(row[0]), parent = plain(row[1]);
      if (!name.empty() && !parent.empty()) parents.emplace(name, parent);
    }
  }
}

// Whether a line that is "#" and nothing else begins there or later.
bool has_closing_line(std::string_view text) {
  for (size_t at = text.rfind("\n#"); at != std::string_view::npos && at > 0;
       at = text.rfind("\n#", at - 1)) {
    const size_t end = text.find_first_not_of(" \t\r", at + 2);
    if (end == std::string_view::npos || text[end] == '\n') return true;
  }
  return false;
}

// The PDB's files and those of most programs have such a line behind every loop: one that has it behind loops
// of the block but not behind that of the atoms, with which it ends, most likely went on.
bool may_be_cut_off(std::string_view text) {
  const size_t loop = text.rfind("\nloop_"), block = text.rfind("\ndata_", loop);
  if (loop == std::string_view::npos) return false;
  const std::string_view before = text.substr(0, loop).substr(block == std::string_view::npos ? 0 : block);
  const std::string_view last = text.substr(loop),
                         first_tag = last.substr(std::min(last.size(), last.find('_', 6)));
  const size_t earlier = before.find("\nloop_");
  return first_tag.starts_with("_atom_site.") && earlier != std::string_view::npos &&
         has_closing_line(before.substr(earlier)) && !has_closing_line(last);
}

}  // namespace

ModelParts read_cif_parts(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  cif::Document document;
  tao::pegtl::memory_input<> input(text.data(), text.size(), "mmCIF");
  cif::parse_input(document, input);  // without gemmi's checks of what is not read here
  ModelParts model;
  std::string first, others;
  for (cif::Block& block : document.blocks) {
    cif::Table table = block.find("_atom_site.", atom_site_columns());
    if (table.length() == 0) continue;
    if (model.atoms > 0) {
      others += (others.empty() ? "" : ", ") + block.name;
      continue;
    }
    first = block.name;
    read_atom_site(table, model);
    read_parents(block, model.parents);
  }
  if (model.atoms == 0) throw files::DataError("has no atoms: no _atom_site with coordinates");
  if (!others.empty()) {
    model.remarks.push_back("only its first data block is read, " + first +
                            ": put the others into files of their own: " + others);
  }
  if (may_be_cut_off(text))
    model.remarks.push_back(
        "may be cut off: no line # closes the loop of its atoms, as one does the loops before");
  return model;
}

bool is_cif(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return false;
    text.remove_prefix(begin);
    if (text[0] != '#') break;
    const size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  }
  constexpr std::string_view kStart = "data_";
  if (text.size() < kStart.size()) return false;
  for (size_t i = 0; i < kStart.size(); ++i) {
    if ((text[i] | 0x20) != (kStart[i] | 0x20)) return false;
  }
  return true;
}

}  // namespace pipeline::protein
