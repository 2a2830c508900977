// Reads a PDB file's first model. gemmi's own reader cannot be used: it takes zero for a coordinate or a
// number that it cannot read, fails at records that do not matter here, ends at END, and does not say in
// which line an atom is. What it knows about residues' names, and its model, are used as for mmCIF.
#include <gemmi/model.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "plugins/data/files/error.hpp"
#include "plugins/data/structures/pdb_columns.hpp"
#include "plugins/data/structures/protein_chains.hpp"

namespace pipeline::structures {
namespace pdb {
namespace {

// Names of four letters reach into the column of chains with two letters. They are taken for what they are
// where the name is one of an amino acid and a chain of two letters cannot be meant, or is not likely: the
// chain before had one. Three letters are left.
void shorten_name(char* line, const char* last) {
  if (line[kChain] == ' ') return;
  std::string name(line + kResidueName, 4);
  name[3] = upper(name[3]);
  const ResidueName four_letters = residue_name(name, {});
  const bool known = four_letters.kind == ResidueName::kStandard;
  if (line[kChain + 1] != ' ') {
    // Names at chain ends, as Amber writes them: "NAL" is nothing, "NALA" is.
    const bool is_end = residue_name(name.substr(0, 3), {}).kind == ResidueName::kOther;
    const bool same_chain = last[kChain] == ' ' && last[kChain + 1] == line[kChain + 1];
    if (!known || !(is_end || same_chain)) return;
  }
  if (known) std::memcpy(line + kResidueName, three_letters_of(four_letters.amino_acid).data(), 3);
  line[kChain] = ' ';
}

// Segments stand in for chains where there are none; elsewhere the columns hold anything: the file's code, or
// charges.
void clean_segment(char* line) {
  char* segment = line + kSegment;
  const bool chain = line[kChain] != ' ' || line[kChain + 1] != ' ';
  if (chain || std::memchr(segment, '.', 4) != nullptr) std::memset(segment, ' ', 4);
}

bool is_water(std::string_view line) {
  char name[3];
  std::transform(line.begin() + kResidueName, line.begin() + kResidueName + 3, name, upper);
  return is_water_name(trimmed({name, 3}));
}

// A hash of the residue that an atom's line belongs to, as it is in the file.
uint64_t hash_of_residue(std::string_view line) {
  const std::hash<std::string_view> hash;
  return hash(line.substr(kResidueName, kInsertion + 1 - kResidueName)) * 31 +
         (line.size() > kSegment ? hash(line.substr(kSegment, 4)) : 0);
}

std::string quoted(uint64_t number, std::string_view line) {
  const size_t end = line.find_last_not_of(' ');
  return "line " + std::to_string(number) + ", \"" + std::string(line.substr(0, std::min(end + 1, kEnd))) +
         "\"";
}

// Takes all of the backbone's atoms, of others the first of every residue, and none of water. What programs
// write past the format is put right on the way: names of four letters or in lower case, coordinates that are
// no numbers (NaN), residues without a number.
class PdbReader {
 public:
  explicit PdbReader(std::string_view text) : rest_(text) {}

  ModelParts read() {
    while (!rest_.empty()) read_line();
    if (model_.atoms == 0) throw files::DataError("has no atoms: no ATOM or HETATM records");
    add_remarks();
    return std::move(model_);
  }

 private:
  // A line of an atom, put right.
  struct Atom {
    char columns[kWidth];
    int number;        // of its residue
    uint64_t residue;  // hash of the residue's name, chain, number and insertion code

    std::string_view text(size_t begin, size_t size) const { return {columns + begin, size}; }
    uint64_t hash_from(size_t begin) const {
      const std::hash<std::string_view> hash;
      return hash(text(begin, kNumber - begin)) * 31 + static_cast<uint64_t>(number) * 256 +
             static_cast<unsigned char>(columns[kInsertion]);
    }
  };

  void read_line() {
    const std::string_view line = take_line(rest_);
    ++line_number_;
    const uint32_t record = record_of(line);
    switch (record) {
      case four("ATOM"):
      case four("HETA"):
        ++model_.atoms;
        chain_is_open_ = record == four("ATOM");
        if (read_atom(line)) add_atom();
        break;
      case four("TER "):
        ended_ = true;
        chain_is_open_ = false;
        break;
      case four("MODE"):
      case four("ENDM"):
        has_model_ = true;
        if (model_.atoms == 0) break;
        rest_ = {};  // the first model is complete
        chain_is_open_ = false;
        break;
      case four("END "):
        chain_is_open_ = false;
        if (model_.atoms > 0) ended_ = goes_on();
        break;
      case four("CONE"):
      case four("MAST"):
        chain_is_open_ = false;
        break;
      case four("SEQR"):
        has_sequence_ = true;
        break;
      case four("MODR"):
        read_parent(line);
        break;
      default:
        break;
    }
  }

  bool goes_on();
  bool read_atom(std::string_view line);
  bool note_atom(bool backbone);
  void add_atom();
  void read_parent(std::string_view line);
  void add_remarks();

  std::string_view rest_;
  uint64_t line_number_ = 0;
  ModelParts model_;
  Atom atom_{};                                    // as read_atom() has read it
  Atom last_{};                                    // the one that was added before
  std::string residue_;                            // as last read, before anything was put right
  std::unordered_map<uint64_t, size_t> residues_;  // of the part: their places, by Atom::residue
  std::unordered_set<uint64_t> backbone_;          // hashes of the part's backbone atoms
  std::unordered_set<uint64_t> read_;              // hashes of all residues, as they are in the file
  bool ended_ = false;                             // the part that last_ is in has ended
  bool first_is_water_ = true;                     // what model_.first_atom is
  PdbNumbers numbers_;

  // For noticing that an end is missing.
  bool chain_is_open_ = false;  // the last atom is an ATOM, and no TER or END has come since
  bool has_model_ = false, has_sequence_ = false;
};

// After END: whether there are residues that are new. What only repeats those before, a trajectory's next
// frame, say, is passed over as further models are.
bool PdbReader::goes_on() {
  while (!rest_.empty()) {
    std::string_view ahead = rest_;
    uint64_t lines = 0;
    for (uint32_t record = 0; !ahead.empty() && record != four("END "); ++lines) {
      const std::string_view line = take_line(ahead);
      record = record_of(line);
      if (record == four("MODE") || record == four("ENDM")) {
        rest_ = {};
        return false;
      }
      const bool is_atom = (record == four("ATOM") || record == four("HETA")) && line.size() >= kEnd;
      if (is_atom && is_backbone(trimmed(line.substr(kName, 4))) && !is_water(line) &&
          !read_.contains(hash_of_residue(line)))
        return true;
    }
    rest_ = ahead;
    line_number_ += lines;
  }
  return false;
}

// Puts the line into atom_; false if it is not needed.
bool PdbReader::read_atom(std::string_view line) {
  if (line.size() < kEnd) {
    throw files::DataError("line " + std::to_string(line_number_) + ": an atom with " +
                           std::to_string(line.size()) + " characters instead of at least " +
                           std::to_string(kEnd) + ": the file is cut off, or not in the PDB's format");
  }
  const std::string_view residue = line.substr(kResidueName, kInsertion + 1 - kResidueName);
  const bool backbone = is_backbone(trimmed(line.substr(kName, 4)));
  if (!backbone && residue == residue_ && !ended_) return false;
  const bool water = is_water(line);
  if (first_is_water_ && (model_.first_atom.empty() || !water)) {
    model_.first_atom = quoted(line_number_, line);
    first_is_water_ = water;
  }
  if (water) return false;
  if (residue != residue_) {
    residue_ = residue;
    read_.insert(hash_of_residue(line));
  }
  char* columns = atom_.columns;
  std::memset(columns, ' ', kWidth);
  std::memcpy(columns, line.data(), std::min(line.size(), kWidth));
  for (char& c : atom_.columns) c = c >= ' ' && c <= '~' ? c : ' ';
  std::transform(columns + kName, columns + kName + 4, columns + kName, upper);
  std::transform(columns + kResidueName, columns + kChain, columns + kResidueName, upper);
  shorten_name(columns, last_.columns);
  clean_segment(columns);
  atom_.number = numbers_.of(columns, backbone, ended_, line_number_);
  atom_.residue = atom_.hash_from(kResidueName);
  return note_atom(backbone);
}

// Whether atom_ is needed; ended_ if it belongs to another part than the one before it. Besides TER, a part
// ends where the chain or the segment changes, where a residue has a backbone atom again (unless that is the
// residue before), and, in a chain without a name, where the number of a residue that is new goes back. Atoms
// need not be in the order of residues.
bool PdbReader::note_atom(bool backbone) {
  const auto same = [&](size_t begin, size_t size) {
    return atom_.text(begin, size) == last_.text(begin, size);
  };
  const uint64_t name = atom_.hash_from(kName);
  if (model_.parts.empty() || !same(kChain, 2) || !same(kSegment, 4)) ended_ = true;
  if (!ended_ && !residues_.contains(atom_.residue)) {
    ended_ = atom_.text(kChain, 2) == "  " && atom_.number < last_.number;
  } else if (!ended_ && backbone && backbone_.contains(name)) {
    ended_ = atom_.residue != last_.residue;
  }
  if (ended_) {
    residues_.clear();
    backbone_.clear();
  }
  if (backbone) backbone_.insert(name);
  return backbone || !residues_.contains(atom_.residue);
}

void PdbReader::add_atom() {
  if (ended_) model_.parts.emplace_back(std::string(trimmed(atom_.text(kChain, 2))));
  ended_ = false;
  last_ = atom_;
  std::vector<gemmi::Residue>& residues = model_.parts.back().residues;
  const auto [known, is_new] = residues_.try_emplace(atom_.residue, residues.size());
  if (is_new) {
    gemmi::Residue& residue = residues.emplace_back();
    residue.name = trimmed(atom_.text(kResidueName, 3));
    residue.seqid = gemmi::SeqId(atom_.number, atom_.columns[kInsertion]);
    residue.segment = trimmed(atom_.text(kSegment, 4));
    residue.het_flag = upper(atom_.columns[0]);
  }
  gemmi::Atom& atom = residues[known->second].atoms.emplace_back();
  atom.name = trimmed(atom_.text(kName, 4));
  atom.altloc = atom_.columns[kAltloc] == ' ' ? '\0' : atom_.columns[kAltloc];
  atom.pos = gemmi::Position(number_in(atom_.text(kX, 8)), number_in(atom_.text(kX + 8, 8)),
                             number_in(atom_.text(kX + 16, 8)));
  atom.occ = static_cast<float>(number_in(atom_.text(kOccupancy, 6)));
}

// MODRES 2ABC MSE A   25  MET  SELENOMETHIONINE
void PdbReader::read_parent(std::string_view line) {
  if (line.size() < 27) return;
  std::string names(line.substr(0, 27));
  std::transform(names.begin(), names.end(), names.begin(), upper);
  const std::string_view text = names, name = trimmed(text.substr(12, 3)),
                         parent = trimmed(text.substr(24, 3));
  if (text.starts_with("MODRES") && !name.empty() && !parent.empty()) model_.parents.emplace(name, parent);
}

void PdbReader::add_remarks() {
  if (!numbers_.remark().empty()) model_.remarks.push_back(numbers_.remark());
  // Entries of the PDB and models have an end. Files with atoms alone, or with a TER between chains only, are
  // often whole without one.
  if (chain_is_open_ && (has_sequence_ || has_model_)) {
    model_.remarks.push_back(std::string("may be cut off: it has ") + (has_sequence_ ? "SEQRES" : "MODEL") +
                             " records, but ends in a chain without TER or END");
  }
}

}  // namespace
}  // namespace pdb

ModelParts read_pdb_parts(std::string_view text) {
  std::string lines;
  if (text.find('\n') == std::string_view::npos && text.find('\r') != std::string_view::npos) {
    lines = text;  // lines end as on an old Macintosh
    std::replace(lines.begin(), lines.end(), '\r', '\n');
    text = lines;
  }
  return pdb::PdbReader(text).read();
}

}  // namespace pipeline::structures
