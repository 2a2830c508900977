// Answers that the model writes.
#include <filesystem>

#include <nlohmann/json.hpp>
#include <pipeline/numbers.hpp>

#include "core/base/utf8.hpp"
#include "files/data_errors.hpp"
#include "generation/generate.hpp"
#include "plugins/models/chat/sequence.hpp"
#include "plugins/models/llava/vlm.hpp"
#include "plugins/tasks/vlm/task.hpp"

namespace pipeline::tasks::vlm {

// The rows of the questions' pictures among the batch's `seen`; undefined where there are none.
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
                                          const std::vector<Question>& questions, Purpose purpose,
                                          bool with_pictures) {
  const GenerateOptions& wanted = config().generate;
  auto options = wanted.decoding(
      tokenizer_.ends(), context().seed("generate", static_cast<uint64_t>(batch.split)), pass().compute);
  options.on_nan = [&](size_t i) {  // between steps the run sees by its loss that it has diverged
    if (purpose != Purpose::kValidate)
      fail_as_nan(printable(conversations[questions[i].sample].id, ""), "answer");
  };
  options.on_step = [this] { context().throw_if_cancelled(); };
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
  const llava::SeeingDecoder decoder(model().language(), seen);
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
  const std::vector<std::string> written = answers(batch, conversations, questions, Purpose::kPredict, true);
  for (size_t i = 0; i < questions.size(); ++i) {
    const Turn& question = conversations[i].turns[2 * questions[i].index];
    sink.row(batch.ids[i], {plain_question(question.text), written[i]});
    if (is_asked()) context().info(written[i]);
  }
}

// Pictures that a user shows are named by paths of files.
void VlmTask::reply(std::string_view messages, const ReplySink& sink) {
  const GenerateOptions& wanted = config().generate;
  VlmTaskBatch batch;
  Conversation conversation;
  files::with_data_errors([&] {
    conversation =
        picture_texts::conversation_about_pictures({{"messages", nlohmann::ordered_json::parse(messages)}});
    if (const std::string problem = picture_texts::problem_of(conversation, false); !problem.empty())
      throw files::DataError(problem);
    for (messages::Picture& picture : conversation.images)
      if (picture.bytes.empty()) picture.name = std::filesystem::absolute(picture.name).string();
    const Pictures pictures({.folder = "/",
                             .archives = {},
                             .decode = config().data.decode(),
                             .tiles = config().vision.tiles(),
                             .most_broken = 0,
                             .is_asked = true,
                             .warn = [&](const std::string& line) { context().warn(line); }});
    BatchBuilder builder(config().vision.vision.square(), model_rows(), features_ != nullptr, true);
    std::vector<SamplePicture> shown;
    for (const messages::Picture& picture : conversation.images)
      shown.push_back(*picture_of(pictures, picture));
    builder.add({.tokens = {0}, .targets = {-1}}, std::move(shown), false);  // for the pictures alone
    builder.finish(batch, batch.pictures);
  });
  batch.tensors([&](at::Tensor& t) {
    if (t.defined()) t = transformer::to_device(t, device());
  });
  const size_t question = last_question(conversation);
  const generation::Prompt prompt{
      .tokens = chat_->prompt(conversation, question, wanted.max_tokens, batch.pictures.tokens_of(0))};
  if (prompt.tokens.empty())
    fail_with(PL_ERROR_CONFIG,
              "the question is too long for task.chat.max_tokens = ", config().chat.max_tokens,
              ", with its pictures and an answer of ", wanted.max_tokens);
  at::Tensor seen;
  if (batch.has_pictures())
    seen = rows_of(batch, model().features(batch, pass()), {conversation}, {{0, question}});
  auto options =
      wanted.decoding(tokenizer_.ends(), context().seed("reply", conversation.turns.size()), pass().compute);
  options.beams = 1;
  chat::AnswerStream stream(chat_->format(), [&](std::string_view text) { sink.text(text); });
  options.on_token = [&](int64_t token) {
    stream.add(token);
    return !context().cancelled();
  };
  static_cast<void>(generation::generate(llava::SeeingDecoder(model().language(), seen), {prompt}, options));
  stream.finish();
  if (stream.tokens() == wanted.max_tokens)
    context().info("\n(the answer is cut at task.generate.max_tokens = ", wanted.max_tokens, ")");
}

}  // namespace pipeline::tasks::vlm
