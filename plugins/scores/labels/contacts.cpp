#include "plugins/scores/labels/contacts.hpp"

#include <algorithm>
#include <limits>

#include <pipeline/numbers.hpp>

#include "plugins/data/residues/alphabet.hpp"
#include "plugins/scores/labels/labels.hpp"

namespace pipeline::labels {

std::vector<float> contact_figures(std::span<const float> log_odds, std::span<const uint8_t> labels,
                                   std::span<const int64_t> positions) {
  struct Pair {
    float score;
    int64_t apart;
    bool is_contact;
  };
  const size_t length = positions.size();
  std::vector<Pair> pairs;
  for (size_t i = 0; i < length; ++i)
    for (size_t j = i + 1; j < length; ++j)
      if (const uint8_t label = labels[i * length + j]; label != residues::kNoPair)
        pairs.push_back({log_odds[i * length + j], positions[j] - positions[i], label == residues::kContact});
  std::vector<float> figures(kContactFigures, std::numeric_limits<float>::quiet_NaN());
  std::vector<double> scores;
  std::vector<uint8_t> are;
  for (const Pair& pair : pairs) {
    scores.push_back(static_cast<double>(pair.score));
    are.push_back(pair.is_contact ? 1 : 0);
  }
  figures[kArea] =
      static_cast<float>(area_under_roc(scores, are).value_or(std::numeric_limits<double>::quiet_NaN()));
  const auto set = [&](ContactFigure figure, size_t part) {
    const size_t most = std::min(pairs.size(), std::max<size_t>(length / part, 1));
    const bool has_contacts = std::ranges::any_of(pairs, &Pair::is_contact);
    if (!has_contacts) return;
    const auto contacts = std::count_if(pairs.begin(), pairs.begin() + static_cast<int64_t>(most),
                                        [](const Pair& pair) { return pair.is_contact; });
    figures[figure] = static_cast<float>(contacts) / static_cast<float>(most);
  };
  // Pairs with the same score stay in the order of the chain.
  std::ranges::stable_sort(pairs, {}, &Pair::apart);
  set(kNearestL, 1);
  std::ranges::stable_sort(pairs, Falling(), &Pair::score);
  set(kTopL, 1), set(kTopL2, 2), set(kTopL5, 5);
  std::erase_if(pairs, [](const Pair& pair) { return pair.apart < kLongRange; });
  set(kLongL, 1), set(kLongL2, 2), set(kLongL5, 5);
  return figures;
}

}  // namespace pipeline::labels
