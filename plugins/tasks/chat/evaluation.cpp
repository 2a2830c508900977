// Answers: to the last question of each conversation, written, scored and shown; and to somebody who waits.
#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "plugins/scores/answers/answer_page.hpp"
#include "plugins/scores/answers/answer_score.hpp"
#include "plugins/tasks/chat/task.hpp"

namespace pipeline::tasks::chat {

text::Question Chat::question(const TokenSample& sample) const {
  return conversation::last_question(conversation_of(sample), *format_, config().chat.max_tokens,
                                     config().generate.max_tokens, longest_line());
}

std::string Chat::messages_of(const TokenSample& sample) const {
  Conversation asked = conversation_of(sample);
  if (asked.is_plain_text()) return "";
  if (asked.turns.back().is_assistant()) asked.turns.pop_back();
  // Of one that was cut, to make room, a template would make something else.
  constexpr int64_t kAnyLength = int64_t{1} << 40;
  if (make_prompt(asked, asked.turns.size(), *format_, kAnyLength, 0) != question(sample).prompt) return "";
  return asked.variables().dump();
}

void Chat::score(const Answered& one, EvaluationSink& sink) const {
  const answers::AnswerScore score = answers::score_answer(one.question.truth, one.answer);
  sink.value("exact", score.exact, 1);
  sink.value("f1", score.f1, 1);
  if (sink.purpose() == Purpose::kValidate || one.id >= answers::kShownSamples) return;
  answers::show(
      one.id,
      {.id = one.question.name,
       .pictures = {},
       .texts = {{"question", one.question.text}, {"truth", one.question.truth}, {"answer", one.answer}},
       .right = score.exact == 1},
      sink);
}

void Chat::report(const Report& report, const ReportSink& sink) {
  answers::report_shown(report, "Answers in held-out conversations", sink);
}

std::vector<Metric> Chat::metrics() {
  std::vector<Metric> result = common::loss_metrics();
  result.push_back({.name = "exact",
                    .help = "share of the last answers that are right, as SQuAD compares them",
                    .better = PL_BETTER_HIGHER});
  result.push_back({.name = "f1", .help = "F1 of the words of the last answers", .better = PL_BETTER_HIGHER});
  return result;
}

// The text with what is learnt of it in brackets; the tokens, and 1 for each that is learnt.
void Chat::show_mask(const text::TextBatch& batch, const PredictionSink& sink) const {
  for (const uint64_t id : batch.ids) {
    const text::Sequence one = sequence_of(corpus().sample(batch.split, id));
    std::string text, tokens, learnt;
    bool was_learnt = false;
    const auto add = [&](int64_t token, bool is_learnt) {
      if (is_learnt != was_learnt) text += is_learnt ? "⟦" : "⟧";
      was_learnt = is_learnt;
      text += format_->token_bytes(token);
      tokens += concat(tokens.empty() ? "" : " ", token);
      learnt += concat(learnt.empty() ? "" : " ", is_learnt);
    };
    for (size_t i = 0; i < one.tokens.size(); ++i) add(one.tokens[i], i > 0 && one.targets[i - 1] >= 0);
    if (!one.targets.empty() && one.targets.back() >= 0) add(one.targets.back(), true);  // it is no input
    if (was_learnt) text += "⟧";
    sink.row(id, {replace_invalid_utf8(text), tokens, learnt});
  }
}

void Chat::predict(const text::TextBatch& batch, const PredictionSink& sink) {
  if (shows_mask()) return show_mask(batch, sink);
  TextTask::predict(batch, sink);
}

void Chat::reply(std::string_view messages, const ReplySink& sink) {
  const Conversation conversation =
      messages::conversation_of_turns({{"messages", nlohmann::ordered_json::parse(messages)}});
  if (!conversation.images.empty())
    fail_with(PL_ERROR_CONFIG, "a picture, which this task does not see: the task vlm does");
  const GenerateOptions& wanted = config().generate;
  generation::Prompt prompt{.tokens = make_prompt(conversation, conversation.turns.size(), *format_,
                                                  config().chat.max_tokens, wanted.max_tokens)};
  if (prompt.tokens.empty())
    fail_with(PL_ERROR_CONFIG,
              "the question is too long for task.chat.max_tokens = ", config().chat.max_tokens,
              " and an answer of ", wanted.max_tokens);
  writing().reply(model(), std::move(prompt), conversation.turns.size(), *format_, sink);
}

}  // namespace pipeline::tasks::chat
