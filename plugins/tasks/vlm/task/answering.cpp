// Answers that the model writes.
#include "core/base/utf8.hpp"
#include "generation/generate.hpp"
#include "plugins/tasks/vlm/model/seeing_decoder.hpp"
#include "plugins/tasks/vlm/task/task.hpp"

namespace pipeline::vlm {

// Those of the questions' pictures, of the batch's `seen`; undefined where there are none.
at::Tensor VlmTask::rows_of(const VlmTaskBatch& batch, const at::Tensor& seen,
                            const std::vector<Conversation>& conversations,
                            const std::vector<Question>& questions) const {
  std::vector<int64_t> rows;
  for (const Question& question : questions)
    if (!batch.pictures.samples[question.sample].is_broken)
      batch.pictures.append_rows(question.sample,
                                 pictures_until(conversations[question.sample], question.index), rows);
  if (rows.empty()) return {};
  return seen.index_select(0, transformer::to_device(rows, seen.device()));
}

std::vector<std::string> VlmTask::answers(const VlmTaskBatch& batch,
                                          const std::vector<Conversation>& conversations,
                                          const std::vector<Question>& questions, bool with_pictures) {
  const GenerateOptions& wanted = config().generate;
  const auto options =
      wanted.decoding(ends_, context().seed("generate", static_cast<uint64_t>(batch.split)), pass().compute);
  at::Tensor seen;
  if (with_pictures && batch.has_pictures())
    seen = rows_of(batch, model().features(batch, pass()), conversations, questions);
  std::vector<generation::Prompt> prompts;
  for (const Question& question : questions) {
    const Conversation& conversation = conversations[question.sample];
    std::vector<int64_t> tokens =
        chat_->prompt(conversation, question.index, wanted.max_tokens,
                      with_pictures ? batch.pictures.tokens_of(question.sample) : PictureTokens());
    if (tokens.empty())
      fail_with(PL_ERROR_CONFIG, "conversation ", printable(conversation.id, ""), ": question ",
                question.index + 1, " does not fit beside an answer of ", wanted.max_tokens,
                " tokens: raise task.chat.max_tokens (", config().chat.max_tokens, ") or shorten it");
    prompts.push_back({.id = batch.ids[question.sample], .tokens = std::move(tokens)});
  }
  const SeeingDecoder decoder(model().language(), seen);
  std::vector<std::string> texts;
  for (const std::vector<int64_t>& tokens : generation::generate(decoder, prompts, options))
    texts.push_back(chat_->answer_text(tokens));
  return texts;
}

void VlmTask::predict(const VlmTaskBatch& batch, const PredictionSink& sink) {
  std::vector<Conversation> conversations;
  std::vector<Question> questions;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    conversations.push_back(conversation(batch.split, batch.ids[i]));
    questions.push_back({i, last_question(conversations[i])});
  }
  const std::vector<std::string> written = answers(batch, conversations, questions, true);
  for (size_t i = 0; i < questions.size(); ++i) {
    const Turn& question = conversations[i].turns[2 * questions[i].index];
    sink.row(batch.ids[i], {plain_question(question.text), written[i]});
    if (is_asked()) context().info(written[i]);
  }
}

}  // namespace pipeline::vlm
