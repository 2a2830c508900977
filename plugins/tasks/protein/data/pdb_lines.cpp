#include "plugins/tasks/protein/data/pdb_lines.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::protein {
namespace {

using namespace pdb;

// Names of four letters reach into the column of chains with two letters. They are taken for what they are where the name is one of an
// amino acid and a chain of two letters cannot be meant, or is not likely: the chain before had one. gemmi gets three letters.
void shorten_name(char* line, const char* last) {
  if (line[kChain] == ' ') return;
  std::string name(line + kResidueName, 4);
  name[3] = upper(name[3]);
  const ResidueName four_letters = residue_name(name, {});
  const bool known = four_letters.kind == ResidueName::kStandard;
  if (line[kChain + 1] != ' ') {
    const bool is_end = residue_name(name.substr(0, 3), {}).kind == ResidueName::kOther;  // of Amber's: "NAL" is nothing, "NALA" is
    const bool same_chain = last != nullptr && last[kChain] == ' ' && last[kChain + 1] == line[kChain + 1];
    if (!known || !(is_end || same_chain)) return;
  }
  if (known) std::memcpy(line + kResidueName, three_letters_of(four_letters.amino_acid).data(), 3);
  line[kChain] = ' ';
}

// Segments stand in for chains where there are none; elsewhere the columns hold anything: the file's code, or charges.
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

// Of the residue that an atom's line is of, as it is in the file.
uint64_t hash_of_residue(std::string_view line) {
  const std::hash<std::string_view> hash;
  return hash(line.substr(kResidueName, kInsertion + 1 - kResidueName)) * 31 +
         (line.size() > kSegment ? hash(line.substr(kSegment, 4)) : 0);
}

std::string quoted(uint64_t number, std::string_view line) {
  const size_t end = line.find_last_not_of(' ');
  return "line " + std::to_string(number) + ", \"" + std::string(line.substr(0, std::min(end + 1, kEnd))) + "\"";
}

}  // namespace

char* PdbLines::gets(char* line, int size) {
  if (!held_ && !next_atom()) return nullptr;
  std::string_view out(atom_, kWidth);
  if (!held_ && any_last_ && ended_) {
    held_ = true;
    out = "TER";
  } else {
    held_ = ended_ = false;
    any_last_ = true;
    std::memcpy(last_, atom_, kWidth);
  }
  const size_t length = std::min(out.size(), static_cast<size_t>(size) - 2);
  std::memcpy(line, out.data(), length);
  line[length] = '\n';
  line[length + 1] = '\0';
  return line;
}

bool PdbLines::next_atom() {
  while (!rest_.empty()) {
    const std::string_view line = take_line(rest_);
    ++line_number_;
    const uint32_t record = record_of(line);
    switch (record) {
      case four("ATOM"):
      case four("HETA"):
        ++atoms_;
        chain_is_open_ = record == four("ATOM");
        if (read_atom(line)) return true;
        break;
      case four("TER "):
        ended_ = true;
        chain_is_open_ = false;
        break;
      case four("MODE"):
      case four("ENDM"):
        has_model_ = true;
        if (atoms_ == 0) break;
        rest_ = {};  // the first model is complete
        chain_is_open_ = false;
        break;
      case four("END "):
        chain_is_open_ = false;
        if (atoms_ > 0) ended_ = goes_on();
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
  return false;
}

// After END: whether there are residues that are new. What only repeats those before, a trajectory's next frame, say, is passed over as
// further models are.
bool PdbLines::goes_on() {
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
      if (is_atom && is_backbone(trimmed(line.substr(kName, 4))) && !is_water(line) && read_.count(hash_of_residue(line)) == 0) return true;
    }
    rest_ = ahead;
    line_number_ += lines;
  }
  return false;
}

// Puts the line into atom_; false if it is not needed.
bool PdbLines::read_atom(std::string_view line) {
  if (line.size() < kEnd) {
    throw files::DataError("line " + std::to_string(line_number_) + ": an atom with " + std::to_string(line.size()) +
                           " characters instead of at least " + std::to_string(kEnd) + ": the file is cut off, or not in the PDB's format");
  }
  const std::string_view residue = line.substr(kResidueName, kInsertion + 1 - kResidueName);
  const bool backbone = is_backbone(trimmed(line.substr(kName, 4)));
  if (!backbone && residue == residue_ && !ended_) return false;
  const bool water = is_water(line);
  if (first_is_water_ && (first_atom_.empty() || !water)) {
    first_atom_ = quoted(line_number_, line);
    first_is_water_ = water;
  }
  if (water) return false;
  if (residue != residue_) {
    residue_ = residue;
    read_.insert(hash_of_residue(line));
  }
  const size_t length = std::min(line.size(), kWidth);
  std::memset(atom_, ' ', kWidth);
  std::memcpy(atom_, line.data(), length);
  for (char& c : atom_) c = c >= ' ' && c <= '~' ? c : ' ';
  std::transform(atom_ + kName, atom_ + kName + 4, atom_ + kName, upper);
  std::transform(atom_ + kResidueName, atom_ + kChain, atom_ + kResidueName, upper);
  shorten_name(atom_, any_last_ ? last_ : nullptr);
  clean_segment(atom_);
  numbers_.give(atom_, backbone, ended_, line_number_);
  if (!note_atom(backbone)) return false;
  for (size_t axis = kX; axis < kEnd; axis += 8) {
    if (!is_number({atom_ + axis, 8})) std::memcpy(atom_ + axis, "     nan", 8);
  }
  return true;
}

// Whether atom_ is needed; ended_ if it belongs to another part than the one before it. Besides TER, a part ends where the chain or the
// segment changes, where a residue has a backbone atom again (unless that is the residue before), and, in a chain without a name, where
// the number of a residue that is new goes back. Atoms need not be in the order of residues.
bool PdbLines::note_atom(bool backbone) {
  const std::string_view atom(atom_, kWidth), last(last_, kWidth);
  const auto same = [&](size_t begin, size_t size) { return atom.substr(begin, size) == last.substr(begin, size); };
  const auto hash = [&](size_t begin) { return std::hash<std::string_view>()(atom.substr(begin, kInsertion + 1 - begin)); };
  const uint64_t residue = hash(kResidueName), name = hash(kName);
  if (any_last_ && !(same(kChain, 2) && same(kSegment, 4))) ended_ = true;
  if (!ended_ && seen_.count(residue) == 0) {
    const auto number = residue_number(atom.substr(kNumber, 4)), before = residue_number(last.substr(kNumber, 4));
    ended_ = any_last_ && atom.substr(kChain, 2) == "  " && number && before && *number < *before;
  } else if (!ended_ && backbone && seen_.count(name) > 0) {
    ended_ = !same(kResidueName, kInsertion + 1 - kResidueName);
  }
  if (ended_) seen_.clear();
  const bool is_new = seen_.insert(residue).second;
  if (backbone) seen_.insert(name);
  return backbone || is_new;
}

// MODRES 2ABC MSE A   25  MET  SELENOMETHIONINE
void PdbLines::read_parent(std::string_view line) {
  if (line.size() < 27) return;
  std::string names(line.substr(0, 27));
  std::transform(names.begin(), names.end(), names.begin(), upper);
  const std::string_view text = names, name = trimmed(text.substr(12, 3)), parent = trimmed(text.substr(24, 3));
  if (text.starts_with("MODRES") && !name.empty() && !parent.empty()) parents_.emplace(name, parent);
}

std::vector<std::string> PdbLines::remarks() const {
  std::vector<std::string> remarks;
  if (!numbers_.remark().empty()) remarks.push_back(numbers_.remark());
  // Entries of the PDB and models have an end. Files with atoms alone, or with a TER between chains only, are often whole without one.
  if (chain_is_open_ && (has_sequence_ || has_model_)) {
    remarks.push_back(std::string("may be cut off: it has ") + (has_sequence_ ? "SEQRES" : "MODEL") +
                      " records, but ends in a chain without TER or END");
  }
  return remarks;
}

}  // namespace pipeline::protein
