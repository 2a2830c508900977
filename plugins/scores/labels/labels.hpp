// How predictions of labels are judged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

}  // namespace pipeline::labels
