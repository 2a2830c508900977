#include "plugins/tasks/summarization/task/summary_scores.hpp"

#include "plugins/tasks/summarization/rouge/scorer.hpp"

namespace pipeline::summarization {
namespace {

const std::vector<std::string>& types() {
  static const std::vector<std::string> kTypes{"rouge1", "rouge2", "rougeL", "rougeLsum"};
  return kTypes;
}

}  // namespace

SummaryScores::SummaryScores(int64_t lead_words)
    : lead_words_(lead_words), plain_(types(), false), stemmed_(types(), true) {}

void SummaryScores::score(const EvaluationSink& sink, const std::string& prefix, std::string_view summary,
                          std::string_view written) const {
  const auto add = [&](const rouge::Scorer& scorer, const char* suffix) {
    const auto scores = scorer.score(summary, written);
    for (size_t i = 0; i < types().size(); ++i) sink.value(prefix + types()[i] + suffix, scores[i].f, 1);
  };
  add(plain_, "");
  if (sink.purpose() != Purpose::kValidate) add(stemmed_, "_stem");
}

void SummaryScores::add(const EvaluationSink& sink, std::string_view document, std::string_view summary,
                        std::string_view written) const {
  score(sink, "", summary, written);
  score(sink, "lead_", summary, rouge::lead_words(document, static_cast<size_t>(lead_words_)));
}

std::vector<Metric> SummaryScores::metrics() {
  std::vector<Metric> result;
  for (const std::string prefix : {"", "lead_"})
    for (const std::string suffix : {"", "_stem"})
      for (const std::string& type : types())
        result.push_back({.name = prefix + type + suffix,
                          .help = type + " F" + (suffix.empty() ? "" : " with stemming") +
                                  (prefix.empty() ? "" : " of the document's first words"),
                          .better = PL_BETTER_HIGHER});
  return result;
}

}  // namespace pipeline::summarization
