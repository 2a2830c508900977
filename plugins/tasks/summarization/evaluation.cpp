// ROUGE of written summaries, beside that of the documents' first words.
#include <algorithm>

#include "plugins/scores/rouge/rouge.hpp"
#include "plugins/tasks/summarization/task.hpp"

namespace pipeline::tasks::summarization {
namespace {

const std::vector<std::string>& rouge_types() {
  static const std::vector<std::string> kTypes{"rouge1", "rouge2", "rougeL", "rougeLsum"};
  return kTypes;
}

// The F measures of a written summary beside the real one; in a full evaluation the same with stemming.
void add_rouge(const EvaluationSink& sink, const std::string& prefix, std::string_view summary,
               std::string_view written) {
  static const rouge::Scorer plain(rouge_types(), false), stemmed(rouge_types(), true);
  const auto add = [&](const rouge::Scorer& scorer, const char* suffix) {
    const auto scores = scorer.score(summary, written);
    for (size_t i = 0; i < scores.size(); ++i) sink.value(prefix + rouge_types()[i] + suffix, scores[i].f, 1);
  };
  add(plain, "");
  if (sink.purpose() != Purpose::kValidate) add(stemmed, "_stem");
}

}  // namespace

void Summarization::warn_of_scripts() const {
  const bool trains = run().purpose == PL_PURPOSE_TRAIN;
  if (!trains && run().purpose != PL_PURPOSE_EVALUATE) return;
  for (const Split split : {Split::kVal, Split::kTest}) {
    if (trains && split == Split::kTest) continue;
    const int64_t most = trains ? config().rouge.validate_samples : config().rouge.evaluate_samples;
    uint64_t scored = corpus().size(split), unseen = 0;
    if (trains || most > 0) scored = std::min(scored, static_cast<uint64_t>(most));
    for (uint64_t id = 0; id < scored; ++id) {
      const TokenSample sample = corpus().sample(split, id);
      unseen += sample.has_target() && rouge::tokenize(decoded(sample.parts.at(1)), false).empty() ? 1 : 0;
    }
    if (unseen > 0)
      context().warn("ROUGE counts words of the letters a to z and digits alone: ", unseen, " of the ",
                     scored, split == Split::kVal ? " validation" : " test",
                     " summaries that it scores have none, and count as 0 whatever is written");
  }
}

text::Question Summarization::question(const TokenSample& sample) const {
  const std::string document = decoded(sample.parts.at(0));
  return {.name = name_of(sample),
          .text = document,
          .shown = common::one_line(rouge::lead_words(document, 24)) + " ...",
          .truth = decoded(sample.parts.at(1)),
          .prompt = make_prompt(sample, rules_, config().generate.max_tokens)};
}

void Summarization::score(const Answered& one, EvaluationSink& sink) const {
  const auto lead_words = static_cast<size_t>(config().rouge.lead_words);
  add_rouge(sink, "", one.question.truth, one.answer);
  add_rouge(sink, "lead_", one.question.truth,
            rouge::lead_words(one.question.text, lead_words));  // the baseline
}

void Summarization::evaluate(const text::TextBatch& batch, EvaluationSink& sink) {
  if (corpus().targets(batch.split) == 0)
    fail_with(PL_ERROR_CONFIG, "none of the ", corpus().size(batch.split),
              " samples of this split has a summary in the column '", config().data.summary_column,
              "', so there is nothing to compare with: use `predict` to write summaries, or give "
              "task.data.summary_column the name of the column that has them");
  TextTask::evaluate(batch, sink);
}

std::vector<Metric> Summarization::metrics() {
  std::vector<Metric> result = common::loss_metrics();
  for (const std::string prefix : {"", "lead_"})
    for (const std::string suffix : {"", "_stem"})
      for (const std::string& type : rouge_types())
        result.push_back({.name = prefix + type + suffix,
                          .help = type + " F" + (suffix.empty() ? "" : " with stemming") +
                                  (prefix.empty() ? "" : " of the document's first words"),
                          .better = PL_BETTER_HIGHER});
  return result;
}

}  // namespace pipeline::tasks::summarization
