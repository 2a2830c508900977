#include "plugins/data/residues/residue_letters.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::residues {

struct LetterTable {
  struct Letter {
    uint8_t code = 0, is_residue = 0, met = ResidueLetters::kBad;
  };
  std::array<Letter, 256> letters{};

  constexpr LetterTable() {
    for (size_t i = 0; i < kAminoAcids.size(); ++i) set(kAminoAcids[i], static_cast<uint8_t>(i), 0);
    for (size_t i = 0; i < kRareLetters.size(); ++i)
      set(kRareLetters[i], static_cast<uint8_t>(kFirstRare + static_cast<int64_t>(i)), 0);
    set('X', kUnknown, 0);
    set('J', kUnknown, ResidueLetters::kLeucineOrIsoleucine);
    for (const char c : {'-', '.'}) at(c) = {0, 0, ResidueLetters::kGaps};
    for (const char c : {' ', '\t', '\r', '\n', '\v', '\f'}) at(c) = {0, 0, 0};
    at('*') = {0, 0, ResidueLetters::kStop};
  }
  constexpr Letter& at(char c) { return letters[static_cast<unsigned char>(c)]; }
  constexpr const Letter& at(char c) const { return letters[static_cast<unsigned char>(c)]; }

 private:
  constexpr void set(char capital, uint8_t code, uint8_t met) {
    if (std::string_view("ACGTUNX").find(capital) == std::string_view::npos)
      met |= ResidueLetters::kNoNucleotide;
    at(capital) = {code, 1, met};
    at(static_cast<char>(capital - 'A' + 'a')) = {code, 1,
                                                  static_cast<uint8_t>(met | ResidueLetters::kSmallLetters)};
  }
};

namespace {

constexpr LetterTable kTable;

std::string shown(char c) {
  if (c > ' ' && c <= '~') return std::string("\"") + c + "\"";
  char code[16];
  std::snprintf(code, sizeof code, "of code %d", static_cast<int>(static_cast<unsigned char>(c)));
  return code;
}

}  // namespace

void ResidueLetters::clear() {
  codes_.clear();
  met_ = 0;
  stop_at_ = SIZE_MAX;
  bad_ = 0;
}

void ResidueLetters::add(std::string_view letters) {
  const size_t before = codes_.size();
  codes_.resize(before + letters.size());
  uint8_t* out = codes_.data() + before;
  uint8_t met = 0;
  for (const char c : letters) {
    const LetterTable::Letter one = kTable.at(c);
    *out = one.code;
    out += one.is_residue;
    met |= one.met;
  }
  codes_.resize(static_cast<size_t>(out - codes_.data()));
  met_ |= met;
  if ((met & kStop) != 0 && stop_at_ == SIZE_MAX) {
    const std::string_view head = letters.substr(0, letters.find('*'));
    stop_at_ = before + static_cast<size_t>(
                            std::ranges::count_if(head, [](char c) { return kTable.at(c).is_residue != 0; }));
  }
  if ((met & kBad) != 0 && bad_ == 0)
    bad_ = *std::ranges::find_if(letters, [](char c) { return kTable.at(c).met == kBad; });
}

std::string ResidueLetters::problem() const {
  if (bad_ != 0 || (met_ & kBad) != 0) return "the character " + shown(bad_) + " is no residue";
  if (codes_.empty()) return "the sequence has no residues";
  if (stop_at_ < codes_.size()) return "there is a stop (*) within the sequence";
  return "";
}

}  // namespace pipeline::residues
