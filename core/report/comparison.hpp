// Are these the same run? Losses side by side, and what each run cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/report/run_record.hpp"

namespace pipeline::report {

// One run's loss against the reference's, over the steps that both have.
struct LossVerdict {
  // other: they differ, and are not meant to be the same, as options differ that decide what is learnt.
  enum class Kind { reference, equal, within, differs, other, nothing_in_common };

  Kind kind = Kind::reference;
  uint64_t steps = 0;  // compared
  // Compared steps where both losses are the same infinity, or both no number, which is the same; the first.
  uint64_t not_finite = 0, first_not_finite = 0;
  // |loss - reference| / |reference|, the largest; infinite where one of the two is no number.
  double difference = 0;
  uint64_t largest_at = 0;  // a step, where the losses are these
  double loss_there = 0, reference_there = 0;
  std::optional<uint64_t> first;         // step that is not equal to the bit
  std::optional<uint64_t> first_beyond;  // step that is outside the tolerance
  std::string other;                     // those options: "optimizer.lr, run.seed"

  bool is_same() const { return kind != Kind::differs && kind != Kind::nothing_in_common; }
};

LossVerdict compare_losses(const Curve& run, const Curve& reference, double tolerance);

// "equal to the bit in 800 steps"
std::string describe(const LossVerdict& verdict);

struct Comparison {
  double tolerance = 0;  // relative
  std::vector<RunRecord> runs;
  std::vector<LossVerdict> verdicts;  // of each run; the first is the reference

  // What is to be said of a run's losses, and whether nothing is wrong with them. A run that was not made has
  // none.
  std::string verdict(size_t run) const;
  bool is_same(size_t run) const;
  bool all_same() const;
  // A run's throughput per process as a multiple of the reference's; nullopt where one of them is not known.
  std::optional<double> efficiency(size_t run) const;

  // What is not the same in all runs that have options, but for where they lie: a value of each run.
  struct Difference {
    std::string key;
    std::vector<std::string> values;  // empty: not set
  };
  std::vector<Difference> differences() const;
};

// The first run that was made is the reference; those that failed or were not made come last.
Comparison compare(std::vector<RunRecord> runs, double tolerance);

// The run in a folder, or its stages, each for itself.
Comparison read_stages(const std::filesystem::path& folder);

// "The losses are the same (tolerance 0.001, relative).", in a line of its own which of runs with other
// options are better, and in one which have failed.
std::string conclusion(const Comparison& comparison, bool is_brief = false);

// For the console: a line per run, what differs, and what follows from it.
std::string table(const Comparison& comparison);

}  // namespace pipeline::report
