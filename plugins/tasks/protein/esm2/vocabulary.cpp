#include "plugins/tasks/protein/esm2/vocabulary.hpp"

#include <algorithm>

#include "plugins/tasks/protein/data/structure.hpp"

namespace pipeline::protein::esm2 {
namespace {

constexpr int64_t number_of(std::string_view token) {
  return std::find(kVocabulary.begin(), kVocabulary.end(), token) - kVocabulary.begin();
}
static_assert(number_of("<cls>") == kCls && number_of("<pad>") == kPad && number_of("<eos>") == kEos &&
              number_of("<mask>") == kMask);

constexpr TokenTable make_table() {
  TokenTable table{};
  for (size_t i = 0; i < kAminoAcids.size(); ++i) table[i] = number_of(kAminoAcids.substr(i, 1));
  table[kUnknown] = number_of("X");
  table[kMaskToken] = kMask;
  return table;
}
constexpr TokenTable kTable = make_table();
static_assert(*std::max_element(kTable.begin(), kTable.end()) == kMask);

}  // namespace

const TokenTable& token_table() { return kTable; }

}  // namespace pipeline::protein::esm2
