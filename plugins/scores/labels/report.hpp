// What an evaluation of labels keeps of each sample, and what is said about all of them.
#pragma once

#include <pipeline/task_types.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipeline::labels {

// What a report is of: by the task's options; and what goes to it with an evaluation's values.
struct Predicted {
  enum class What { kClasses, kSeveral, kNumbers, kContacts } what = What::kClasses;
  const char* noun = "label";     // of what is judged
  const char* group = "cluster";  // intervals are over these; what LabelRecord::group tells apart
  const char* accuracy = "accuracy";

  std::vector<std::string> classes = {};
  std::string usual = {};          // the most frequent class of the training data; empty: nobody knows
  double mean = 0, deviation = 1;  // of numbers, which are learnt as (number - mean) / deviation
  std::optional<double> training_mean = {};  // nothing: nobody knows

  // Values that a LabelRecord has for each label.
  size_t columns() const;
};

// What is kept of one sample. Rows are its labels: the predicted number, as it is learnt; the number of the
// right class and the log-probability of each; of several for each class whether it is right (1 or 0), then
// the log-odds of each; of contacts one row, kContactFigures.
struct LabelRecord {
  static constexpr std::string_view kKey = "labels and what is right";

  uint64_t group = 0;              // of samples that are not independent of each other
  std::vector<double> right = {};  // for numbers one a row, as the data has it: a float may be another's
  std::vector<float> values = {};

  std::string pack() const;
  static LabelRecord unpack(std::string_view bytes);
};

// Sends what depends on the data, with each batch: a report knows none.
void send_predicted(const EvaluationSink& sink, const Predicted& predicted);

// Reports the figures of the field, with 95% intervals over groups in a full evaluation, beside those of
// guesses that see nothing. asked: by the options.
void report_labels(const Predicted& asked, const Report& report, const ReportSink& sink);

}  // namespace pipeline::labels
