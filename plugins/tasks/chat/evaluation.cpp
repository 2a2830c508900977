// Answers: to the last question of each conversation, written, scored and shown; and to somebody who waits.
#include <algorithm>

#include <nlohmann/json.hpp>
#include <pipeline/numbers.hpp>

#include "core/base/utf8.hpp"
#include "generation/generate.hpp"
#include "plugins/models/chat/answer_stream.hpp"
#include "plugins/scores/answers/answer_page.hpp"
#include "plugins/scores/answers/answer_score.hpp"
#include "plugins/tasks/chat/task.hpp"

namespace pipeline::tasks::chat {
namespace {

using answers::ShownAnswer;

constexpr uint64_t kShown = 48;  // on the page
constexpr const char* kAnswerRecord = "answer";

// For the log: one line, not longer than is read there.
std::string one_line(std::string text) {
  constexpr size_t kMost = 240;
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  if (text.size() > kMost) text = std::string(utf8_prefix(text, kMost)) + " ...";
  return text.empty() ? "(nothing)" : text;
}

}  // namespace

std::vector<Chat::Answered> Chat::answer(Split split, Purpose purpose, const std::vector<uint64_t>& ids) {
  const GenerateOptions& wanted = config().generate;
  const ChatFormat& format = corpus_->format();
  auto options = wanted.decoding(tokenizer().ends(), context().seed("generate", static_cast<uint64_t>(split)),
                                 pass().compute);
  options.on_step = [this] { context().throw_if_cancelled(); };
  std::vector<Answered> all;
  options.on_nan = [&](size_t i) {  // between steps the run sees by its loss that it has diverged
    if (purpose != Purpose::kValidate) fail_as_nan(one_line(all[i].name), "answer");
  };
  std::vector<generation::Prompt> prompts;
  for (const uint64_t id : ids) {
    const Conversation conversation = corpus_->conversation(split, id);
    const size_t turn = answered_turn(conversation);
    std::vector<int64_t> tokens =
        make_prompt(conversation, turn, format, config().chat.max_tokens, wanted.max_tokens);
    if (tokens.empty())
      fail_with(PL_ERROR_CONFIG, "conversation ", one_line(conversation.id),
                ": its last question does not fit beside an "
                "answer of ",
                wanted.max_tokens, " tokens: raise task.chat.max_tokens (", config().chat.max_tokens,
                ") or shorten it");
    prompts.push_back({.id = id, .tokens = std::move(tokens)});
    const auto& turns = conversation.turns;
    all.push_back({.id = id,
                   .name = conversation.id,
                   .question = turn > 0 ? turns[turn - 1].text : turns[0].text,
                   .truth = turn < turns.size() && turns[turn].is_assistant() ? turns[turn].text : "",
                   .answer = {}});
  }
  const std::vector<std::vector<int64_t>> written = generation::generate(model(), prompts, options);
  for (size_t i = 0; i < all.size(); ++i) all[i].answer = format.answer_text(written[i]);
  return all;
}

void Chat::evaluate(const ChatBatch& batch, EvaluationSink& sink) {
  TorchTask::evaluate(batch, sink);
  const generation::ScoredSamples& scored = config().generate;
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    if (!scored.includes(sink.purpose(), batch.ids[i]) && i >= sink.samples_left()) continue;
    const Conversation conversation = corpus_->conversation(batch.split, batch.ids[i]);
    if (conversation.turns.back().is_assistant()) ids.push_back(batch.ids[i]);
  }
  if (ids.empty()) return;
  for (const Answered& one : answer(batch.split, sink.purpose(), ids)) {
    const answers::AnswerScore score = answers::score_answer(one.truth, one.answer);
    sink.sample(one.id, concat("  ", one_line(one.name), ": ", one_line(one.question), "\n    real:    ",
                               one_line(one.truth), "\n    written: ", one_line(one.answer)));
    if (!scored.includes(sink.purpose(), one.id)) continue;
    sink.value("exact", score.exact, 1);
    sink.value("f1", score.f1, 1);
    if (sink.purpose() == Purpose::kValidate || one.id >= kShown) continue;
    const ShownAnswer shown{one.name, {}, one.question, one.truth, one.answer, "", score.exact == 1};
    sink.record(one.id, kAnswerRecord, shown.pack());
  }
}

void Chat::report(const Report& report, const ReportSink& sink) {
  std::vector<ShownAnswer> shown;
  for (const EvaluationRecord& record : report.records)
    if (record.key == kAnswerRecord) shown.push_back(ShownAnswer::unpack(record.bytes));
  if (!shown.empty())
    sink.file("answers.html", answers::answer_page(shown, "Answers in held-out conversations"));
}

std::vector<Metric> Chat::metrics() {
  return {{.name = "loss", .help = "cross-entropy per target token, in nats"},
          {.name = "perplexity", .help = "exp(loss)", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN},
          {.name = "exact",
           .help = "share of the last answers that are right, as SQuAD compares them",
           .better = PL_BETTER_HIGHER},
          {.name = "f1", .help = "F1 of the words of the last answers", .better = PL_BETTER_HIGHER}};
}

// The text with what is learnt of it in brackets; the tokens, and 1 for each that is learnt.
void Chat::show_mask(const ChatBatch& batch, const PredictionSink& sink) {
  for (const uint64_t id : batch.ids) {
    const Sequence one = sequence(batch.split, id);
    std::string text, tokens, learnt;
    bool was_learnt = false;
    const auto add = [&](int64_t token, bool is_learnt) {
      if (is_learnt != was_learnt) text += is_learnt ? "⟦" : "⟧";
      was_learnt = is_learnt;
      text += corpus_->format().token_bytes(token);
      tokens += concat(tokens.empty() ? "" : " ", token);
      learnt += concat(learnt.empty() ? "" : " ", is_learnt);
    };
    for (size_t i = 0; i < one.tokens.size(); ++i) add(one.tokens[i], i > 0 && one.targets[i - 1] >= 0);
    if (!one.targets.empty() && one.targets.back() >= 0) add(one.targets.back(), true);  // that nothing reads
    if (was_learnt) text += "⟧";
    sink.row(id, {replace_invalid_utf8(text), tokens, learnt});
  }
}

void Chat::predict(const ChatBatch& batch, const PredictionSink& sink) {
  if (shows_mask()) return show_mask(batch, sink);
  for (const Answered& one : answer(batch.split, Purpose::kPredict, batch.ids)) {
    sink.row(one.id, {one.question, one.answer});
    if (!config().ask.prompt.empty()) context().info(one.answer);
  }
}

void Chat::reply(std::string_view messages, const ReplySink& sink) {
  const Conversation conversation =
      messages::conversation_of_turns({{"messages", nlohmann::ordered_json::parse(messages)}});
  if (!conversation.images.empty())
    fail_with(PL_ERROR_CONFIG, "a picture, which this task does not see: the task vlm does");
  const GenerateOptions& wanted = config().generate;
  generation::Prompt prompt{.tokens = make_prompt(conversation, conversation.turns.size(), corpus_->format(),
                                                  config().chat.max_tokens, wanted.max_tokens)};
  if (prompt.tokens.empty())
    fail_with(PL_ERROR_CONFIG,
              "the question is too long for task.chat.max_tokens = ", config().chat.max_tokens,
              " and an answer of ", wanted.max_tokens);
  auto options =
      wanted.decoding(tokenizer().ends(), context().seed("reply", conversation.turns.size()), pass().compute);
  options.beams = 1;
  pipeline::chat::AnswerStream stream(corpus_->format(), [&](std::string_view text) { sink.text(text); });
  options.on_token = [&](int64_t token) {
    stream.add(token);
    return !context().cancelled();
  };
  static_cast<void>(generation::generate(model(), {prompt}, options));
  stream.finish();
  if (stream.tokens() == wanted.max_tokens)
    context().info("\n(the answer is cut at task.generate.max_tokens = ", wanted.max_tokens, ")");
}

}  // namespace pipeline::tasks::chat
