#include "plugins/scores/answers/chrf.hpp"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace pipeline::answers {
namespace {

bool is_space(std::string_view letter) {
  static constexpr std::string_view kWide[] = {
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  const char c = letter[0];
  if (letter.size() == 1) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
  return std::ranges::find(kWide, letter) != std::end(kWide);
}

// The letters of UTF-8 text without spaces, and where each begins; the end at last.
struct Letters {
  std::string text;
  std::vector<size_t> starts;

  explicit Letters(std::string_view given) {
    for (size_t at = 0, end = 0; at < given.size(); at = end) {
      end = at + 1;
      while (end < given.size() && (static_cast<unsigned char>(given[end]) & 0xc0) == 0x80) ++end;
      const std::string_view letter = given.substr(at, end - at);
      if (is_space(letter)) continue;
      starts.push_back(text.size());
      text += letter;
    }
    starts.push_back(text.size());
  }
  size_t size() const { return starts.size() - 1; }
  std::string_view gram(size_t first, size_t letters) const {
    return std::string_view(text).substr(starts[first], starts[first + letters] - starts[first]);
  }
};

ChrfCounts counts_of(const Letters& truth, const Letters& text) {
  ChrfCounts counts;
  for (size_t n = 1; n <= counts.size(); ++n) {
    SharedGrams& grams = counts[n - 1];
    std::unordered_map<std::string_view, int64_t> left;
    for (size_t i = 0; i + n <= truth.size(); ++i, ++grams.wanted) ++left[truth.gram(i, n)];
    for (size_t i = 0; i + n <= text.size(); ++i, ++grams.given)
      if (const auto found = left.find(text.gram(i, n)); found != left.end() && found->second-- > 0)
        ++grams.shared;
  }
  return counts;
}

}  // namespace

ChrfCounts chrf_counts(std::span<const std::string> truths, std::string_view text) {
  const Letters given(text);
  ChrfCounts best;
  double most = -1;
  for (const std::string& truth : truths) {
    const ChrfCounts counts = counts_of(Letters(truth), given);
    if (const double score = chrf(counts); score > most) best = counts, most = score;
  }
  return best;
}

void add(ChrfCounts& sum, const ChrfCounts& more) {
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i].given += more[i].given;
    sum[i].wanted += more[i].wanted;
    sum[i].shared += more[i].shared;
  }
}

double chrf(const ChrfCounts& counts) {
  double precision = 0, recall = 0, lengths = 0;
  for (const SharedGrams& grams : counts) {
    if (grams.given == 0 || grams.wanted == 0) continue;
    precision += grams.shared / grams.given;
    recall += grams.shared / grams.wanted;
    ++lengths;
  }
  if (precision + recall == 0) return 0;
  precision /= lengths, recall /= lengths;
  constexpr double kBeta2 = 4;
  return (1 + kBeta2) * precision * recall / (kBeta2 * precision + recall);
}

}  // namespace pipeline::answers
