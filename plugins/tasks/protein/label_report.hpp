// What an evaluation of labels keeps of each sample, and what is said about all of them.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/data/proteins/labels.hpp"
#include "plugins/scores/figures/svg.hpp"
#include "plugins/scores/labels/labels.hpp"

namespace pipeline::tasks::protein {

// What is kept of one sample. Rows are its labels: the predicted number, as it is learnt; the number of the
// right class and the log-probability of each; of contacts one row, kContactFigures.
struct LabelRecord {
  static constexpr std::string_view kKey = "labels and what is right";

  uint64_t cluster = 0;            // of similar sequences
  std::vector<double> right = {};  // for numbers one a row, as the data has it: a float may be another's
  std::vector<float> values = {};

  std::string pack() const;
  static LabelRecord unpack(std::string_view bytes);
};

// Sends the confusion of a batch's classes: what validations and evaluations that are added up have, whose
// memory does not grow with labels.
void send_confusion(const EvaluationSink& sink, const labels::Confusion& confusion);

// Reports the figures of the field, with 95% intervals over clusters in a full evaluation, beside those of
// guesses that see nothing.
void report_labels(const proteins::Labels& labels, const proteins::LabelScale& scale, const Report& report,
                   const ReportSink& sink);

// "confusion.csv", right classes by predicted ones, and "confusion.svg", its shares of the right ones: `map`
// with these, for some 40 classes at most.
void show_confusion(const labels::Confusion& confusion, const std::vector<std::string>& classes,
                    figures::HeatMap map, const ReportSink& sink);

std::vector<Metric> label_metrics(const proteins::Labels& labels);

}  // namespace pipeline::tasks::protein
