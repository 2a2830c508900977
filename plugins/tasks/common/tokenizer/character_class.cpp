#include "tokenizer/character_class.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace pipeline::text {
namespace {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

#include "plugins/tasks/common/tokenizer/unicode_ranges.inc"

// The property White_Space, which has not changed since Unicode 6.3.
constexpr CodePointRange kSpaces[] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                      {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                      {0x205f, 0x205f}, {0x3000, 0x3000}};

constexpr uint32_t kCodePoints = 0x110000;
constexpr uint32_t kPageBits = 8;
constexpr uint32_t kPageSize = 1 << kPageBits;

// Two stages: a page number per 256 code points, and the pages, of which most are the same.
class ClassTable {
 public:
  ClassTable() {
    std::vector<CharacterClass> classes(kCodePoints, CharacterClass::kOther);
    const auto mark = [&](std::span<const CodePointRange> ranges, CharacterClass value) {
      for (const CodePointRange& range : ranges) {
        std::fill(classes.begin() + range.first, classes.begin() + range.last + 1, value);
      }
    };
    mark(kLetters, CharacterClass::kLetter);
    mark(kNumbers, CharacterClass::kNumber);
    mark(kSpaces, CharacterClass::kSpace);

    std::map<Page, uint8_t> numbers;
    for (uint32_t block = 0; block < kCodePoints / kPageSize; ++block) {
      Page page;
      std::copy_n(classes.begin() + block * kPageSize, kPageSize, page.begin());
      const auto [entry, is_new] = numbers.emplace(page, static_cast<uint8_t>(pages_.size()));
      if (is_new) pages_.push_back(page);
      page_of_[block] = entry->second;
    }
  }

  CharacterClass at(uint32_t code_point) const {
    return pages_[page_of_[code_point >> kPageBits]][code_point & (kPageSize - 1)];
  }

 private:
  using Page = std::array<CharacterClass, kPageSize>;

  std::array<uint8_t, kCodePoints / kPageSize> page_of_;  // Unicode 16.0 has 133 different pages
  std::vector<Page> pages_;
};

}  // namespace

CharacterClass character_class(uint32_t code_point) {
  static const ClassTable table;
  return code_point < kCodePoints ? table.at(code_point) : CharacterClass::kOther;
}

}  // namespace pipeline::text
