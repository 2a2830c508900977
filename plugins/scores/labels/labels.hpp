// How predictions of labels and ranked contacts of residues are judged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::labels {

// A rank correlation with ties (Spearman 1904): Pearson's correlation of ranks, equal values with the mean of
// theirs. Nothing where one side is all the same, or there are fewer than two.
std::optional<double> spearman(std::span<const double> a, std::span<const double> b);
std::optional<double> pearson(std::span<const double> a, std::span<const double> b);

// The share of pairs of one that is and one that is not in which the former has the larger score, ties as
// half (Mann and Whitney 1947). Nothing where all are alike.
std::optional<double> area_under_roc(std::span<const double> scores, std::span<const uint8_t> is);

// Right classes by predicted ones: counts[right * classes + predicted].
struct Confusion {
  size_t classes = 0;
  std::vector<double> counts;

  explicit Confusion(size_t number) : classes(number), counts(number * number) {}
  void add(size_t right, size_t predicted) { counts[right * classes + predicted] += 1; }
  double of(size_t right, size_t predicted) const { return counts[right * classes + predicted]; }

  double accuracy() const;
  // Matthews' correlation coefficient, of several classes as Gorodkin (2004) has it: 0 where all are in, or
  // predicted to be in, one class.
  double mcc() const;
  // The mean over classes that are there of the harmonic mean of precision and recall.
  double macro_f1() const;
};

// A stretch of words with one type, as tags in front of it say: "B-PER", "I-PER".
struct Entity {
  std::string_view type;
  size_t begin, end;

  bool operator==(const Entity&) const = default;
};
// The entities of a text's tags by seqeval's rules, which are those of conlleval: IOB1, IOB2, IOE and IOBES;
// one that does not begin with its B begins all the same.
std::vector<Entity> entities_of(std::span<const std::string_view> tags);
// Whether classes are such tags: one of them is "B-" and a type, "I-", "E-" or "S-".
bool are_entity_tags(const std::vector<std::string>& classes);

constexpr int64_t kLongRange = 24;  // positions apart (CASP)

// How well a chain's contacts are ranked: of the L likeliest pairs (L: its residues), of L / 2 and of L / 5
// the share that are contacts (CASP's precision), of all pairs and of those at least 24 residues apart; the
// same of the L pairs that are nearest to each other along the chain; and the area under the ROC curve. NaN
// where there are no such pairs, or no contacts among them.
enum ContactFigure : size_t {
  kTopL,
  kTopL2,
  kTopL5,
  kLongL,
  kLongL2,
  kLongL5,
  kNearestL,
  kArea,
  kContactFigures
};
// (L, L) log-odds, and kContact, kNoContact or kNoPair; positions: of each residue along the chain.
std::vector<float> contact_figures(std::span<const float> log_odds, std::span<const uint8_t> labels,
                                   std::span<const int64_t> positions);

}  // namespace pipeline::labels
