#include "plugins/scores/labels/labels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <pipeline/numbers.hpp>

#include "plugins/data/residues/alphabet.hpp"

namespace pipeline::labels {
namespace {

// Ranks from 0; equal values have the mean of their ranks. Where one is NaN there is no order, and every rank
// is NaN.
std::vector<double> ranks_of(std::span<const double> values) {
  if (has_nan(values)) return std::vector(values.size(), std::numeric_limits<double>::quiet_NaN());
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return ranks;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::optional<double> pearson(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 2) return std::nullopt;
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  if (aa <= 0 || bb <= 0) return std::nullopt;
  return ab / std::sqrt(aa * bb);
}

std::optional<double> spearman(std::span<const double> a, std::span<const double> b) {
  return pearson(ranks_of(a), ranks_of(b));
}

std::optional<double> area_under_roc(std::span<const double> scores, std::span<const uint8_t> is) {
  const std::vector<double> ranks = ranks_of(scores);
  double sum = 0, with = 0;
  for (size_t i = 0; i < is.size(); ++i)
    if (is[i] != 0) sum += ranks[i], with += 1;
  const double without = static_cast<double>(is.size()) - with;
  if (with == 0 || without == 0) return std::nullopt;
  return (sum - with * (with - 1) / 2) / (with * without);
}

double Confusion::accuracy() const {
  double right = 0;
  for (size_t i = 0; i < classes; ++i) right += of(i, i);
  return right / std::accumulate(counts.begin(), counts.end(), 0.0);
}

double Confusion::mcc() const {
  double all = 0, right = 0, products = 0, predicted_squares = 0, right_squares = 0;
  for (size_t k = 0; k < classes; ++k) {
    double is = 0, predicted = 0;
    for (size_t other = 0; other < classes; ++other) is += of(k, other), predicted += of(other, k);
    all += is;
    right += of(k, k);
    products += is * predicted;
    predicted_squares += predicted * predicted;
    right_squares += is * is;
  }
  const double below = (all * all - predicted_squares) * (all * all - right_squares);
  return below <= 0 ? 0 : (right * all - products) / std::sqrt(below);
}

double Confusion::macro_f1() const {
  double sum = 0, there = 0;
  for (size_t k = 0; k < classes; ++k) {
    double is = 0, predicted = 0;
    for (size_t other = 0; other < classes; ++other) is += of(k, other), predicted += of(other, k);
    if (is == 0) continue;
    there += 1;
    sum += 2 * of(k, k) / (is + predicted);
  }
  return there == 0 ? 0 : sum / there;
}

std::vector<Entity> entities_of(std::span<const std::string_view> tags) {
  const auto is_one_of = [](char letter, std::string_view letters) {
    return letters.find(letter) != letters.npos;
  };
  std::vector<Entity> entities;
  char before = 'O';
  std::string_view type_before;
  size_t begin = 0;
  for (size_t i = 0; i <= tags.size(); ++i) {
    const std::string_view tag = i < tags.size() && !tags[i].empty() ? tags[i] : "O";
    const char letter = tag.front();
    std::string_view type = tag.substr(1);
    if (const size_t dash = type.find('-'); dash != type.npos) type.remove_prefix(dash + 1);
    if (type.empty()) type = "_";
    const bool is_other = type != type_before;
    if (is_one_of(before, "ES") || (is_one_of(before, "BI") && is_one_of(letter, "BSO")) ||
        (!is_one_of(before, "O.") && is_other))
      entities.push_back({type_before, begin, i});
    if (is_one_of(letter, "BS") || (is_one_of(before, "ESO") && is_one_of(letter, "EI")) ||
        (!is_one_of(letter, "O.") && is_other))
      begin = i;
    before = letter;
    type_before = type;
  }
  return entities;
}

bool are_entity_tags(const std::vector<std::string>& classes) {
  return std::ranges::any_of(classes, [](const std::string& name) {
    return name.size() > 2 && name[1] == '-' &&
           std::string_view("BIES").find(name[0]) != std::string_view::npos;
  });
}

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
