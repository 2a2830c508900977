#include "plugins/tasks/pretraining/task.hpp"

#include <algorithm>
#include <utility>

namespace pipeline::tasks::pretraining {

std::vector<int32_t> Pretraining::document_of(std::string_view text) const {
  std::vector<int32_t> tokens = tokenizer()->encode(text);
  if (tokenizer()->adds_bos()) tokens.insert(tokens.begin(), static_cast<int32_t>(*tokenizer()->bos()));
  tokens.push_back(static_cast<int32_t>(tokenizer()->eot()));
  return tokens;
}

tokenizer::TrainingTexts Pretraining::training_texts() const {
  return corpus().training_texts(
      [this](const auto& files, const auto& part) { return config().data.source_of(files, part); },
      config().tokenizer.vocab_size);
}

text::Reading Pretraining::reading(const sources::SourceFiles& files, Split /*split*/,
                                   const files::SplitPart& part) const {
  tokenizer().require_end_of_text("which a document ends with");
  const records::PairSource source = config().data.source_of(files, part);
  return {.options = concat("blocks/1 ", max_tokens(), "\n", source.options()),
          .read = [this, source](const stores::TokenSink& add, const files::Hooks& hooks) {
            using Document = std::pair<std::string, std::vector<int32_t>>;
            BlockWriter blocks(max_tokens(), static_cast<uint32_t>(tokenizer()->vocab_size()), add);
            stores::TokenReport report = source.read_on_threads<Document>(
                hooks,
                [this](const records::Pair& text) { return Document(text.id, document_of(text.first)); },
                [&](Document&& one) { blocks.add(one.first, one.second); });
            blocks.finish();
            return report;
          }};
}

std::string Pretraining::asked_sample() const {
  std::string sample;
  const std::vector<int32_t> tokens = document_of(config().ask.prompt);
  const int64_t most = config().language.max_position_embeddings - config().generate.max_tokens;
  if (const auto size = static_cast<int64_t>(tokens.size()) - 1; size > most)
    config_error("ask.prompt", concat("has ", size, " tokens: beside task.generate.max_tokens = ",
                                      config().generate.max_tokens, " the model has room for ", most));
  const stores::TokenSink keep = [&](std::string&& one) { sample = std::move(one); };
  BlockWriter block(most, static_cast<uint32_t>(tokenizer()->vocab_size()), keep);
  block.add("prompt", tokens);
  block.finish();
  return sample;
}

int64_t Pretraining::open_rules() {
  tokenizer().require_end_of_text("which a document ends with");
  return tokenizer()->eot();
}

void Pretraining::open_data() {
  TextTask::open_data();
  if (!logs_data()) return;
  uint64_t tokens = 0;
  for (const stores::TokenStore& store : corpus().training().stores()) tokens += store.tokens();
  context().info("tokens     ", tokens, " to learn from, in blocks of ", max_tokens());
}

// How a block's first document begins, at most its first half, and goes on. What is asked is the whole
// prompt.
text::Question Pretraining::question(const TokenSample& sample) const {
  const Sequence piece = pieces_of(sample).front();
  const auto begin = piece.tokens.begin();
  const auto size = static_cast<int64_t>(piece.tokens.size()),
             half = std::min(config().generate.prompt_tokens, std::max<int64_t>(size / 2, 1)),
             given = is_asked() ? size : half, end = std::min(size, given + config().generate.max_tokens);
  const bool has_begin = tokenizer()->adds_bos() && *begin == *tokenizer()->bos();
  text::Question question{.name = name_of(sample),
                          .text = written_text({begin + (has_begin ? 1 : 0), begin + given}),
                          .shown = {},
                          .truth = written_text({begin + given, begin + end}),
                          .prompt = {begin, begin + given}};
  question.shown = common::one_line(question.text, longest_line());
  return question;
}

}  // namespace pipeline::tasks::pretraining

PIPELINE_TASK(pipeline::tasks::pretraining::Pretraining, "pretraining", "1.0.0",
              "A language model learns to continue texts. Weight decay: matrices and embeddings; not biases "
              "and norms")
