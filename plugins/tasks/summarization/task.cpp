#include "plugins/tasks/summarization/task.hpp"

#include <utility>

namespace pipeline::tasks::summarization {

PairSource Summarization::source_of(const sources::SourceFiles& files, Split split,
                                    const files::SplitPart& part) const {
  const DataConfig& data = config().data;
  return {.files = files,
          .columns = {.first = data.document_column,
                      .second = data.summary_column,
                      .id = data.id_column.empty() ? "id" : data.id_column,
                      .second_required = split != Split::kTest,
                      .id_required = !data.id_column.empty()},
          .max_record_bytes = static_cast<uint64_t>(data.max_record_bytes),
          .quotes = records::quotes_named(data.quotes),
          .part = part};
}

tokenizer::TrainingTexts Summarization::training_texts() const {
  return corpus().training_texts(
      [this](const auto& files, const auto& part) { return source_of(files, Split::kTrain, part); },
      config().tokenizer.vocab_size);
}

text::Reading Summarization::reading(const sources::SourceFiles& files, Split split,
                                     const files::SplitPart& part) const {
  const PairSource source = source_of(files, split, part);
  return {.options = source.options(),
          .read = [this, source](const stores::TokenSink& add, const files::Hooks& hooks) {
            return read_samples(
                source,
                {.encode = [this](std::string_view text) { return tokenizer()->encode(text); },
                 .vocabulary_size = vocabulary_size()},
                hooks, add);
          }};
}

std::string Summarization::asked_sample() const {
  return stores::pack_tokens({tokenizer()->encode(config().ask.prompt), {}}, "prompt", vocabulary_size());
}

int64_t Summarization::open_rules() {
  tokenizer().require_end_of_text("which a summary ends with");
  rules_ = {.max_tokens = config().sequence.max_tokens,
            .max_summary_tokens = config().sequence.max_summary_tokens,
            .end_of_text = tokenizer()->eot(),
            .loss_on_all = config().sequence.loss == "all"};
  if (tokenizer()->adds_bos()) rules_.start = {*tokenizer()->bos()};
  for (const int32_t id : tokenizer()->encode(config().sequence.separator)) rules_.separator.push_back(id);
  if (rules_.separator.empty())
    fail_with(PL_ERROR_CONFIG,
              "task.sequence.separator is empty: it tells the model where the document ends");
  const int64_t fixed = rules_.fixed();
  if (fixed + 2 > rules_.max_tokens)
    fail_with(PL_ERROR_CONFIG, "task.sequence.max_tokens = ", rules_.max_tokens,
              ": nothing of a document would fit: ", fixed, " tokens are the separator",
              rules_.start.empty() ? "" : " and the token of the start",
              ", and one ends the summary; at least ", fixed + 2);
  if (const std::string problem = config().writing_problem(fixed); !problem.empty())
    fail_with(PL_ERROR_CONFIG, "task.generate.max_tokens = ", config().generate.max_tokens, ": ", problem);
  return rules_.end_of_text;
}

void Summarization::open_data() {
  TextTask::open_data();
  if (run().purpose == PL_PURPOSE_EXPORT) return;
  if (const uint64_t all = corpus().size(Split::kTest), with = corpus().targets(Split::kTest);
      with < all && config().ask.prompt.empty())
    context().info(all - with, " of the ", all, " test pairs have no summary: evaluations count the other ",
                   with);
  warn_of_scripts();
}

}  // namespace pipeline::tasks::summarization

PIPELINE_TASK(pipeline::tasks::summarization::Summarization, "summarization", "1.0.0",
              "A language model learns to summarize pairs of document and summary. Weight decay: matrices "
              "and embeddings; not biases and norms")
