// ROUGE of written summaries against the real ones, beside the lead baseline on the same samples.
#pragma once

#include <pipeline/task_types.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "plugins/tasks/summarization/rouge/scorer.hpp"

namespace pipeline::summarization {

class SummaryScores {
 public:
  explicit SummaryScores(int64_t lead_words);

  // Adds the F measures of one sample: rouge1, rouge2, rougeL, rougeLsum, in a full evaluation the same with
  // _stem, and all of these as lead_...
  void add(const EvaluationSink& sink, std::string_view document, std::string_view summary,
           std::string_view written) const;

  // The figures that the above become.
  static std::vector<Metric> metrics();

 private:
  void score(const EvaluationSink& sink, const std::string& prefix, std::string_view summary,
             std::string_view written) const;

  int64_t lead_words_;
  rouge::Scorer plain_, stemmed_;
};

}  // namespace pipeline::summarization
