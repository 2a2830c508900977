#include "plugins/tasks/protein/data/pdb_lines.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "plugins/tasks/common/files/error.hpp"

namespace pipeline::protein {
namespace {

// Columns from 0: https://www.wwpdb.org/documentation/file-format, "Coordinate Section".
constexpr size_t kName = 12, kResidueName = 17, kChain = 20, kNumber = 22, kInsertion = 26, kX = 30, kEnd = 54, kSegment = 72;

constexpr uint32_t four(const char* text) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(text[i]);
  return value;
}

// The line's first four letters in upper case; blanks where it is shorter.
uint32_t record_of(std::string_view line) {
  char start[4] = {' ', ' ', ' ', ' '};
  std::memcpy(start, line.data(), std::min<size_t>(line.size(), 4));
  for (char& c : start) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c == '\t' ? ' ' : c);
  return four(start);
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

bool is_backbone(std::string_view name) { return name == "N" || name == "CA" || name == "C"; }

// A number that gemmi reads to its end; it takes zero for what it cannot read.
bool is_number(std::string_view field) {
  field = trimmed(field);
  if (field.starts_with('+')) field.remove_prefix(1);
  double value;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && end == field.data() + field.size();
}

std::optional<int> integer(std::string_view field) {
  field = trimmed(field);
  int value;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return value;
}

// Names of four letters reach into the column of chains with two letters. They are taken for what they are where the name is one of an
// amino acid and a chain of two letters cannot be meant, or is not likely: the chain before had one. gemmi gets three letters.
void shorten_name(char* line, const char* last) {
  if (line[kChain] == ' ') return;
  const std::string name(line + kResidueName, 4);
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
    const size_t end = rest_.find('\n');
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++line_number_;
    while (line.ends_with('\r')) line.remove_suffix(1);
    switch (record_of(line)) {
      case four("ATOM"):
      case four("HETA"):
        ++atoms_;
        if (read_atom(line)) return true;
        break;
      case four("TER "):
        ended_ = true;
        break;
      case four("MODE"):
      case four("ENDM"):
      case four("END "):
        if (atoms_ > 0) rest_ = {};  // the first model is complete
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

// Puts the line into atom_; false if it is not needed.
bool PdbLines::read_atom(std::string_view line) {
  if (line.size() < kEnd) {
    throw files::DataError("line " + std::to_string(line_number_) + ": an atom with " + std::to_string(line.size()) +
                           " characters instead of at least " + std::to_string(kEnd) + ": the file is cut off, or not in the PDB's format");
  }
  const std::string_view residue = line.substr(kResidueName, kInsertion + 1 - kResidueName);
  const bool backbone = is_backbone(trimmed(line.substr(kName, 4)));
  if (!backbone && residue == residue_ && !ended_) return false;
  if (is_water_name(trimmed(residue.substr(0, 3)))) return false;
  residue_ = residue;
  const size_t length = std::min(line.size(), kWidth);
  std::memset(atom_, ' ', kWidth);
  std::memcpy(atom_, line.data(), length);
  for (char& c : atom_) c = c >= ' ' && c <= '~' ? c : ' ';
  shorten_name(atom_, any_last_ ? last_ : nullptr);
  clean_segment(atom_);
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
    const auto number = integer(atom.substr(kNumber, 4)), before = integer(last.substr(kNumber, 4));
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
  if (line.size() < 27 || !line.starts_with("MODRES")) return;
  const auto name = trimmed(line.substr(12, 3)), parent = trimmed(line.substr(24, 3));
  if (!name.empty() && !parent.empty()) parents_.emplace(name, parent);
}

}  // namespace pipeline::protein
