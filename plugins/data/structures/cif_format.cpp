#include <gemmi/cif.hpp>
#include <gemmi/numb.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plugins/data/files/error.hpp"
#include "plugins/data/structures/pdb_columns.hpp"
#include "plugins/data/structures/protein_chains.hpp"

namespace pipeline::structures {
namespace {

namespace cif = gemmi::cif;

// A value of a CIF file without its quotes; empty for "." and "?".
std::string_view plain(std::string_view raw) {
  if (raw == "." || raw == "?") return {};
  if (raw.size() >= 2 && (raw[0] == '\'' || raw[0] == '"') && raw.back() == raw[0])
    return raw.substr(1, raw.size() - 2);
  return raw;
}

// Columns of _atom_site that are read; "?" marks those that a file may leave out.
const std::vector<std::string> kColumns = {
    "Cartn_x",       "Cartn_y",        "Cartn_z",       "?label_atom_id",
    "?auth_atom_id", "?label_comp_id", "?auth_comp_id", "?label_asym_id",
    "?auth_asym_id", "?label_seq_id",  "?auth_seq_id",  "?pdbx_PDB_ins_code",
    "?label_alt_id", "?occupancy",     "?group_PDB",    "?pdbx_PDB_model_num"};

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool has_prefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

std::optional<int> number_in(std::string_view text) {
  int value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && (end == text.data() + text.size() || *end < '0' || *end > '9');
  return whole ? std::optional<int>(value) : std::nullopt;
}

std::string in_upper_case(std::string_view text) {
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(), upper);
  return name;
}

// Puts the first model of an _atom_site table into a ModelParts. Throws DataError where columns are missing.
class AtomSite {
  // In the order of kColumns.
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

 public:
  explicit AtomSite(cif::Table& table) : table_(table) {
    for (const auto& [given, name] :
         {std::pair{kAtom, "atom"}, {kComp, "comp"}, {kChain, "asym"}, {kNumber, "seq"}}) {
      if (!table.has_column(given.first) && !table.has_column(given.second))
        throw files::DataError(std::string("_atom_site has neither label_") + name + "_id nor auth_" + name +
                               "_id");
    }
  }

  void read(ModelParts& model) {
    std::string number, asym;
    bool first_is_water = true;
    for (const auto row : table_) {
      if (row.has(kModel) && model.atoms == 0) number = row[kModel];
      if (row.has(kModel) && row[kModel] != number) continue;
      ++model.atoms;
      const std::string comp = in_upper_case(value(row, kComp));
      const bool water = is_water_name(comp);
      if (first_is_water && (model.first_atom.empty() || !water)) {
        model.first_atom = text_of(row, comp);
        first_is_water = water;
      }
      if (water) continue;
      const std::string_view chain = value(row, kChain), part = value(row, kPart);
      if (model.parts.empty() || part != asym || chain != model.parts.back().name) {
        model.parts.emplace_back(std::string(chain));
        asym = part;
        known_.clear();
      }
      add(row, comp, model.parts.back());
    }
    if (counted_ > 0) {
      model.remarks.push_back(std::to_string(counted_) + (counted_ == 1 ? " residue has" : " residues have") +
                              " neither auth_seq_id nor label_seq_id: counted on from the one before");
    }
  }

 private:
  using Row = cif::Table::Row;
  using Given = std::pair<Column, Column>;  // the second where a row has nothing in the first
  static constexpr Given kAtom{kLabelAtom, kAuthAtom}, kComp{kLabelComp, kAuthComp},
      kPart{kLabelAsym, kAuthAsym}, kChain{kAuthAsym, kLabelAsym}, kNumber{kAuthSeq, kLabelSeq};

  static std::string_view value(const Row& row, Column column) {
    return row.has(column) ? plain(row[column]) : std::string_view();
  }
  static std::string_view value(const Row& row, const Given& given) {
    const std::string_view first = value(row, given.first);
    return first.empty() ? value(row, given.second) : first;
  }
  static std::string text_of(const Row& row, const std::string& comp) {
    std::string text = "\"" + std::string(value(row, kGroup));
    for (const std::string_view word :
         {value(row, kAtom), std::string_view(comp), value(row, kChain), value(row, kNumber)})
      text += (text.size() == 1 ? "" : " ") + std::string(word.empty() ? "?" : word);
    return text + "\"";
  }

  void add(const Row& row, const std::string& comp, gemmi::Chain& part) {
    const std::string_view name = value(row, kAtom);
    const bool backbone = pdb::is_backbone(name);
    const std::string atom = backbone ? in_upper_case(name) : "";
    const std::string_view altloc_text = value(row, kAltloc);
    const char altloc = altloc_text.empty() ? '\0' : altloc_text[0];
    gemmi::Residue& residue = residue_of(row, comp, atom, altloc, part);
    if (!backbone) return;
    gemmi::Atom& added = residue.atoms.emplace_back();
    added.name = atom;
    added.altloc = altloc;
    added.pos = gemmi::Position(cif::as_number(row[kX]), cif::as_number(row[kY]), cif::as_number(row[kZ]));
    if (row.has(kOccupancy)) added.occ = static_cast<float>(cif::as_number(row[kOccupancy], 1.0));
  }

  // The part's residue of this row, which may be one of several names at one number. Atoms need not be in the
  // order of residues; an atom of the backbone that comes again is another residue's (where only that tells
  // residues apart, an alternate location needs its letter).
  gemmi::Residue& residue_of(const Row& row, const std::string& comp, const std::string& atom, char altloc,
                             gemmi::Chain& part) {
    const std::string_view text = value(row, kAuthSeq), insertion = value(row, kInsertion);
    const std::optional<int> label = number_in(value(row, kLabelSeq)), author = number_in(text),
                             number = author ? author : label;
    // Old files write insertion codes behind the number.
    const char icode = !insertion.empty() ? insertion[0] : author && text.back() >= 'A' ? text.back() : ' ';
    const auto can_take = [&](const gemmi::Residue& residue) {
      return atom.empty() ||
             std::none_of(residue.atoms.begin(), residue.atoms.end(), [&](const gemmi::Atom& other) {
               const bool letters = number || (other.altloc != '\0' && altloc != '\0');
               return other.name == atom && (other.altloc == altloc || !letters);
             });
    };
    if (!part.residues.empty() && is_last_numbered_ == number.has_value()) {
      gemmi::Residue& last = part.residues.back();
      const bool same = last.name == comp && last.seqid.icode == icode &&
                        last.label_seq.has_value() == label.has_value() &&
                        (!label || *last.label_seq == *label) && (!number || last.seqid.num.value == *number);
      if (same && can_take(last)) return last;
    }
    if (!number) ++counted_;
    number_ =
        number ? *number
               : static_cast<int>(std::min(int64_t{number_} + 1, int64_t{std::numeric_limits<int>::max()}));
    is_last_numbered_ = number.has_value();
    const auto [known, is_new] = known_.try_emplace(Place{number_, icode, label, comp}, part.residues.size());
    if (!is_new && number && can_take(part.residues[known->second])) return part.residues[known->second];
    known->second = part.residues.size();
    gemmi::Residue& residue = part.residues.emplace_back();
    residue.name = comp;
    residue.seqid = gemmi::SeqId(number_, icode);
    if (label) residue.label_seq = *label;
    residue.het_flag = upper(value(row, kGroup).empty() ? 'A' : value(row, kGroup)[0]) == 'H' ? 'H' : 'A';
    return residue;
  }

  using Place = std::tuple<int, char, std::optional<int>, std::string>;
  cif::Table& table_;
  std::map<Place, size_t> known_;  // the part's residues
  int number_ = 0;                 // of the row before
  bool is_last_numbered_ = false;  // in the file
  uint64_t counted_ = 0;           // residues that are not
};

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
  return has_prefix(first_tag, "_atom_site.") && earlier != std::string_view::npos &&
         has_closing_line(before.substr(earlier)) && !has_closing_line(last);
}

}  // namespace

ModelParts read_cif_parts(std::string_view text) {
  if (has_prefix(text, kByteOrderMark)) text.remove_prefix(3);
  cif::Document document;
  tao::pegtl::memory_input<> input(text.data(), text.size(), "mmCIF");
  try {
    cif::parse_input(document, input);  // without gemmi's checks of what is not read here
  } catch (const tao::pegtl::parse_error& error) {
    throw files::DataError("damaged or cut off: its line " + std::to_string(error.positions().front().line) +
                           " does not continue as mmCIF");
  }
  ModelParts model;
  std::string first, others;
  for (cif::Block& block : document.blocks) {
    cif::Table table = block.find("_atom_site.", kColumns);
    if (table.length() == 0) continue;
    if (model.atoms > 0) {
      others += (others.empty() ? "" : ", ") + block.name;
      continue;
    }
    first = block.name;
    AtomSite(table).read(model);
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
  if (has_prefix(text, kByteOrderMark)) text.remove_prefix(3);
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

}  // namespace pipeline::structures
