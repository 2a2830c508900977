// What an evaluation of labels keeps of each sample, and what is said about all of them.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/data/proteins/labels.hpp"
#include "plugins/scores/labels/labels.hpp"

namespace pipeline::protein {

// Of one sample. Rows are its labels: the predicted number, as it is learnt; the number of the right class
// and the log-probability of each; of contacts one row, kContactFigures.
struct LabelRecord {
  static constexpr std::string_view kKey = "labels and what is right";

  uint64_t cluster = 0;            // of similar sequences
  std::vector<double> right = {};  // of numbers one a row, as the data has it: as a float it may be another's
  std::vector<float> values = {};

  std::string pack() const;
  static LabelRecord unpack(std::string_view bytes);
};

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

// Of a batch's classes: what validations and evaluations that are added up have, whose memory does not grow
// with labels.
void send_confusion(const EvaluationSink& sink, const Confusion& confusion);

// The figures of the field, with 95% intervals over clusters in a full evaluation, beside those of guesses
// that see nothing.
void report_labels(const Labels& labels, const LabelScale& scale, const Report& report,
                   const ReportSink& sink);

std::vector<Metric> label_metrics(const Labels& labels);

}  // namespace pipeline::protein
