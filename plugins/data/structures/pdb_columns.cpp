#include "plugins/data/structures/pdb_columns.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "plugins/data/structures/structure.hpp"

namespace pipeline::structures::pdb {
namespace {

constexpr int kFirstHybrid = 10'000, kHybridStart = 10 * 36 * 36 * 36;  // "A000"

template <class T>
std::optional<T> parsed(std::string_view field) {
  T value;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return value;
}

int digit_of(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'Z' ? c - 'A' + 10 : -1; }

}  // namespace

uint32_t record_of(std::string_view line) {
  char start[4] = {' ', ' ', ' ', ' '};
  std::memcpy(start, line.data(), std::min<size_t>(line.size(), 4));
  for (char& c : start) c = c == '\t' ? ' ' : upper(c);
  return four(start);
}

std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  while (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

bool is_backbone(std::string_view name) {
  if (name.size() == 1) return upper(name[0]) == 'N' || upper(name[0]) == 'C';
  return name.size() == 2 && upper(name[0]) == 'C' && upper(name[1]) == 'A';
}

double number_in(std::string_view field) {
  field = trimmed(field);
  if (field.starts_with('+')) field.remove_prefix(1);
  return parsed<double>(field).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::optional<int> residue_number(std::string_view field) {
  if (digit_of(upper(field[0])) < 10) return parsed<int>(trimmed(field));
  int value = 0;
  for (const char c : field) {
    const int digit = digit_of(upper(c));
    if (digit < 0) return std::nullopt;
    value = value * 36 + digit;
  }
  return value - kHybridStart + kFirstHybrid;
}

int PdbNumbers::of(const char* columns, bool backbone, bool part_ended, uint64_t line_number) {
  const std::string_view atom(columns, kWidth);
  if (const auto number = residue_number(atom.substr(kNumber, 4))) {
    number_ = *number;
    residue_.clear();
    return number_;
  }
  std::string residue(atom.substr(kResidueName, kNumber - kResidueName));
  residue += atom.substr(kInsertion, 1);
  residue += atom.substr(kSegment, 4);
  const std::string name(atom.substr(kName, kAltloc - kName));
  const char altloc = atom[kAltloc];
  const auto is_same = [&](const auto& other) {
    return other.first == name && (other.second == altloc || other.second == ' ' || altloc == ' ');
  };
  const bool again = backbone && std::any_of(its_atoms_.begin(), its_atoms_.end(), is_same);
  if (part_ended || again || residue != residue_) {
    ++number_;
    residue_ = std::move(residue);
    its_atoms_.clear();
    if (counted_++ == 0) first_line_ = line_number;
    remark_ = std::to_string(counted_) + (counted_ == 1 ? " residue has" : " residues have") +
              " no readable number, the first in line " + std::to_string(first_line_) +
              ": counted on from the one before";
  }
  if (backbone) its_atoms_.emplace_back(name, altloc);
  return number_;
}

}  // namespace pipeline::structures::pdb
