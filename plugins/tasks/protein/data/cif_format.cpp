#include <gemmi/cif.hpp>
#include <gemmi/numb.hpp>

#include <charconv>
#include <string>
#include <utility>

#include "plugins/tasks/common/files/error.hpp"
#include "plugins/tasks/protein/data/model_parts.hpp"

namespace pipeline::protein {
namespace {

namespace cif = gemmi::cif;

// Columns of _atom_site; "?" marks those that a file may leave out.
const std::vector<std::string> kColumns = {"Cartn_x",       "Cartn_y",        "Cartn_z",       "?label_atom_id",
                                           "?auth_atom_id", "?label_comp_id", "?auth_comp_id", "?label_asym_id",
                                           "?auth_asym_id", "?label_seq_id",  "?auth_seq_id",  "?pdbx_PDB_ins_code",
                                           "?label_alt_id", "?occupancy",     "?group_PDB",    "?pdbx_PDB_model_num"};
enum Column {
  kX,
  kY,
  kZ,
  kLabelAtom,
  kAuthAtom,
  kLabelComp,
  kAuthComp,
  kLabelAsym,
  kAuthAsym,
  kLabelSeq,
  kAuthSeq,
  kInsertion,
  kAltloc,
  kOccupancy,
  kGroup,
  kModel
};

// A value without its quotes; empty for CIF's "." and "?".
std::string_view plain(std::string_view raw) {
  if (raw == "." || raw == "?") return {};
  if (raw.size() >= 2 && (raw[0] == '\'' || raw[0] == '"') && raw.back() == raw[0]) return raw.substr(1, raw.size() - 2);
  return raw;
}

bool parse(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && (end == text.data() + text.size() || *end < '0' || *end > '9');
}

class AtomSite {
 public:
  explicit AtomSite(cif::Table& table) : table_(table) {
    atom_ = table.first_of(kLabelAtom, kAuthAtom);
    comp_ = table.first_of(kLabelComp, kAuthComp);
    part_ = table.first_of(kLabelAsym, kAuthAsym);
    chain_ = table.first_of(kAuthAsym, kLabelAsym);
    number_ = table.first_of(kAuthSeq, kLabelSeq);
    for (const auto& [column, name] : {std::pair{atom_, "atom"}, {comp_, "comp"}, {chain_, "asym"}, {number_, "seq"}}) {
      if (!table.has_column(column))
        throw files::DataError(std::string("_atom_site has neither label_") + name + "_id nor auth_" + name + "_id");
    }
  }

  std::vector<gemmi::Chain> parts() {
    std::vector<gemmi::Chain> parts;
    std::string model, asym;
    for (const auto row : table_) {
      if (row.has(kModel) && parts.empty() && model.empty()) model = row[kModel];
      if (row.has(kModel) && row[kModel] != model) continue;
      const std::string_view comp = plain(row[comp_]);
      if (is_water_name(comp)) continue;
      if (parts.empty() || row[part_] != asym || plain(row[chain_]) != parts.back().name) {
        parts.emplace_back(std::string(plain(row[chain_])));
        asym = row[part_];
      }
      gemmi::Residue& residue = residue_of(row, comp, parts.back());
      const std::string_view atom = plain(row[atom_]);
      if (atom == "N" || atom == "CA" || atom == "C") add_atom(row, atom, residue);
    }
    return parts;
  }

 private:
  using Row = cif::Table::Row;

  static std::string_view value(const Row& row, int column) { return row.has(column) ? plain(row[column]) : std::string_view(); }

  // The part's residue of this row, which may be one of several names at one number.
  gemmi::Residue& residue_of(const Row& row, std::string_view comp, gemmi::Chain& part) const {
    gemmi::ResidueId id;
    int number = 0, label = 0;
    const std::string_view text = plain(row[number_]), insertion = value(row, kInsertion);
    id.seqid.num = parse(text, number) ? number : 0;
    // Old files write insertion codes behind the number.
    id.seqid.icode = !insertion.empty() ? insertion[0] : !text.empty() && text.back() >= 'A' ? text.back() : ' ';
    const bool labelled = parse(value(row, kLabelSeq), label);
    for (size_t i = part.residues.size(); i-- > 0;) {
      gemmi::Residue& known = part.residues[i];
      if (known.seqid != id.seqid || (labelled && known.label_seq != label)) break;
      if (known.name == comp) return known;
    }
    id.name = comp;
    gemmi::Residue& residue = part.residues.emplace_back(id);
    if (labelled) residue.label_seq = label;
    residue.het_flag = value(row, kGroup).starts_with('H') ? 'H' : 'A';
    return residue;
  }

  void add_atom(const Row& row, std::string_view name, gemmi::Residue& residue) const {
    gemmi::Atom& atom = residue.atoms.emplace_back();
    atom.name = name;
    const std::string_view altloc = value(row, kAltloc);
    atom.altloc = altloc.empty() ? '\0' : altloc[0];
    atom.pos = gemmi::Position(cif::as_number(row[kX]), cif::as_number(row[kY]), cif::as_number(row[kZ]));
    if (row.has(kOccupancy)) atom.occ = static_cast<float>(cif::as_number(row[kOccupancy], 1.0));
  }

  cif::Table& table_;
  int atom_, comp_, part_, chain_, number_;
};

void read_parents(cif::Block& block, ParentNames& parents) {
  for (const auto& [category, tags] : {std::pair{"_chem_comp.", std::vector<std::string>{"id", "mon_nstd_parent_comp_id"}},
                                       {"_pdbx_struct_mod_residue.", {"label_comp_id", "parent_comp_id"}}}) {
    for (const auto row : block.find(category, tags)) {
      const auto name = plain(row[0]), parent = plain(row[1]);
      if (!name.empty() && !parent.empty()) parents.emplace(name, parent);
    }
  }
}

}  // namespace

ModelParts read_cif_parts(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  cif::Document document;
  tao::pegtl::memory_input<> input(text.data(), text.size(), "mmCIF");
  cif::parse_input(document, input);  // without gemmi's checks of what is not read here
  for (cif::Block& block : document.blocks) {
    cif::Table table = block.find("_atom_site.", kColumns);
    if (table.length() == 0) continue;
    ModelParts model;
    model.parts = AtomSite(table).parts();
    read_parents(block, model.parents);
    return model;
  }
  throw files::DataError("has no atoms: no _atom_site with coordinates");
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
