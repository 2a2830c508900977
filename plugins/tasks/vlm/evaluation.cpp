// What an evaluation measures besides the loss: answers, beside those without the picture and those that are
// the usual ones; and captions found among others.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "plugins/models/llava/vlm.hpp"
#include "plugins/scores/answers/answer_page.hpp"
#include "plugins/scores/answers/answer_score.hpp"
#include "plugins/scores/recall/recall.hpp"
#include "plugins/tasks/vlm/answer_figures.hpp"
#include "plugins/tasks/vlm/retrieval.hpp"
#include "plugins/tasks/vlm/task.hpp"

namespace pipeline::tasks::vlm {
namespace {

using answers::answer_page;
using answers::AnswerScore;
using answers::score_answer;
using answers::ShownAnswer;

constexpr uint64_t kShown = 48;  // on the page
constexpr const char *kAnswerRecord = "answer", *kScoredRecord = "scored", *kScoresRecord = "scores";
// Values by question, for the table: "exact of What is this?".
constexpr std::array kKinds{"exact", "f1", "blind_exact", "blind_f1", "majority_exact", "majority_f1"};

// A text for the log: one line.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text.empty() ? "(nothing)" : text;
}

}  // namespace

const MajorityAnswers& VlmTask::majority() {
  if (majority_) return *majority_;
  majority_.emplace();
  for (const PictureSource& source : training().stores())
    for (uint64_t i = 0; i < source.size(); ++i) majority_->add(source.conversations[i]);
  return *majority_;
}

void VlmTask::evaluate(const VlmTaskBatch& batch, EvaluationSink& sink) {
  TorchTask::evaluate(batch, sink);
  std::vector<Conversation> conversations;
  for (const uint64_t id : batch.ids) conversations.push_back(conversation(batch.split, id));
  score_answers(batch, conversations, sink);
  if (sink.purpose() == Purpose::kValidate) return;
  score_without_pictures(batch, conversations, sink);
  score_retrieval(batch, conversations, sink);
}

// Scores the first question alone: its answer gives others away.
void VlmTask::score_answers(const VlmTaskBatch& batch, const std::vector<Conversation>& conversations,
                            EvaluationSink& sink) {
  const bool is_full = sink.purpose() != Purpose::kValidate;
  const generation::ScoredSamples& scored = config().generate;
  std::vector<Question> questions;
  for (size_t i = 0; i < conversations.size(); ++i) {
    if (!scored.includes(sink.purpose(), batch.ids[i]) && i >= sink.samples_left()) continue;
    if (batch.pictures.samples[i].is_broken) continue;
    if (conversations[i].turns.size() > 1) questions.push_back({i, 0});
  }
  if (questions.empty()) return;
  const std::vector<std::string> written = answers(batch, conversations, questions, sink.purpose(), true);
  const std::vector<std::string> blind = is_full
                                             ? answers(batch, conversations, questions, sink.purpose(), false)
                                             : std::vector<std::string>(written.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    const Conversation& conversation = conversations[questions[i].sample];
    const uint64_t id = batch.ids[questions[i].sample];
    const std::string question = plain_question(conversation.turns[0].text);
    const std::vector<std::string> truths = truths_of(conversation);
    const std::string truth = shown_truths(truths);
    const ScoredAnswer score(conversation, question.empty(), written[i]);
    std::string names;
    for (const messages::Picture& picture : conversation.images)
      names += (names.empty() ? "" : ", ") + one_line(picture.name);
    sink.sample(id, concat("  ", one_line(conversation.id), " ", names, ": ", one_line(question),
                           "\n    real:    ", one_line(truth), "\n    written: ", one_line(written[i])));
    if (!scored.includes(sink.purpose(), id)) continue;
    sink.value("exact", score.exact, 1);
    sink.value("f1", score.f1, 1);
    if (!is_full) continue;
    sink.record(id, kScoredRecord, score.pack());
    const AnswerScore without = score_answer(truths, blind[i]);
    const AnswerScore usual =
        sample_count(Split::kTrain) > 0 ? score_answer(truths, majority().answer(question)) : AnswerScore{};
    const std::array values{score.exact, score.f1, without.exact, without.f1, usual.exact, usual.f1};
    const bool is_common = sample_count(Split::kTrain) > 0 && majority().is_common(question);
    for (size_t k = 0; k < kKinds.size(); ++k) {
      if (k >= 2) sink.value(kKinds[k], values[k], 1);
      if (is_common) sink.value(concat(kKinds[k], " of ", question), values[k], 1);
    }
    if (id >= kShown) continue;
    ShownAnswer shown{conversation.id, {}, question, truth, written[i], blind[i], score.exact == 1};
    for (size_t p = 0; p < pictures_until(conversation, 0); ++p)
      if (std::string png = pictures(batch.split, id).png(conversation.images[p]); !png.empty())
        shown.pictures.push_back(std::move(png));
    sink.record(id, kAnswerRecord, shown.pack());
  }
}

// The loss of the same texts when nothing is seen.
void VlmTask::score_without_pictures(const VlmTaskBatch& batch,
                                     const std::vector<Conversation>& conversations, EvaluationSink& sink) {
  const LoadRequest request{batch.split, sink.purpose(), batch.ids, 0};
  VlmTaskBatch blind = batch_of(conversations, request, false);
  blind.tensors([&](at::Tensor& t) {
    if (t.defined()) t = transformer::to_device(t, device());
  });
  sink.value("blind_loss", loss(blind).sum.item<double>(), batch_info(blind).weight);
}

// The pictures with captions that are told apart: the first ones of the split.
const std::vector<uint64_t>& VlmTask::retrieved(Split split) {
  auto& ids = retrieved_[static_cast<size_t>(split)];
  if (ids) return *ids;
  ids.emplace();
  const auto most = static_cast<size_t>(config().generate.retrieval);
  for (uint64_t id = 0; id < sample_count(split) && ids->size() < most; ++id) {
    const Conversation one = conversation(split, id);
    if (!one.images.empty() && one.turns.size() == 2 && plain_question(one.turns[0].text).empty())
      ids->push_back(id);
  }
  return *ids;
}

void VlmTask::score_retrieval(const VlmTaskBatch& batch, const std::vector<Conversation>& conversations,
                              EvaluationSink& sink) {
  const std::vector<uint64_t>& all = retrieved(batch.split);
  std::vector<std::vector<int64_t>> captions;
  at::Tensor seen;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    if (batch.pictures.samples[i].is_broken || !std::binary_search(all.begin(), all.end(), batch.ids[i]))
      continue;
    if (captions.empty())
      for (const uint64_t id : all) captions.push_back(chat_->answer(conversation(batch.split, id), 0));
    if (!seen.defined()) seen = model().features(batch, pass());
    const llava::SeeingDecoder decoder(model().language(), rows_of(batch, seen, conversations, {{i, 0}}));
    const std::vector<float> scores =
        caption_scores(decoder, chat_->prompt(conversations[i], 0, 1, batch.pictures.tokens_of(i)), captions,
                       pass().compute);
    sink.record(batch.ids[i], kScoresRecord, files::bytes_of(scores));
  }
}

void VlmTask::report(const Report& report, const ReportSink& sink) {
  std::vector<ShownAnswer> shown;
  std::vector<ScoredAnswer> scored;
  std::vector<float> scores;
  size_t pictures = 0;
  for (const EvaluationRecord& record : report.records) {
    if (record.key == kScoredRecord) scored.push_back(ScoredAnswer::unpack(record.bytes));
    if (record.key == kAnswerRecord) shown.push_back(ShownAnswer::unpack(record.bytes));
    if (record.key != kScoresRecord) continue;
    const size_t before = scores.size(), count = record.bytes.size() / sizeof(float);
    scores.resize(before + count);
    std::memcpy(scores.data() + before, record.bytes.data(), record.bytes.size());
    ++pictures;
  }
  if (!scored.empty()) report_answers(scored, sink, [this] { context().throw_if_cancelled(); });
  // A picture that is broken leaves its caption without one.
  if (pictures > 1 && scores.size() == pictures * pictures) {
    const recall::CaptionRecall recall = recall::recall_of(scores, pictures);
    sink.figure("caption_recall", recall.captions, PL_BETTER_HIGHER);
    sink.figure("picture_recall", recall.pictures, PL_BETTER_HIGHER);
    sink.text(concat("among ", pictures, ": the right caption for ", recall.captions * 100,
                     "% of the pictures, the right picture for ", recall.pictures * 100,
                     "% of the captions"));
  }
  struct Row {
    double weight = 0;
    std::map<std::string_view, double> of;
  };
  std::map<std::string_view, Row> rows;
  for (const EvaluationValue& value : report.values) {
    constexpr std::string_view kOf = " of ";
    const size_t at = value.name.find(kOf);
    if (at == std::string_view::npos) continue;
    Row& row = rows[value.name.substr(at + kOf.size())];
    row.weight = value.weight;
    row.of[value.name.substr(0, at)] = value.weight > 0 ? value.sum / value.weight : 0;
  }
  if (rows.size() > 1) {
    std::string text = "answers       F1: seen  unseen  usual     exact: seen  unseen  usual    question";
    for (const auto& [question, row] : rows) {
      const auto share = [&of = row.of](const char* kind) { return of.contains(kind) ? of.at(kind) : 0; };
      char line[160];
      std::snprintf(line, sizeof line, "\n  %7.0f      %6.3f  %6.3f  %5.3f         %6.3f  %6.3f  %5.3f    ",
                    row.weight, share("f1"), share("blind_f1"), share("majority_f1"), share("exact"),
                    share("blind_exact"), share("majority_exact"));
      text += std::string(line) + (question.empty() ? "(caption)" : one_line(std::string(question)));
    }
    sink.text(text);
  }
  if (!shown.empty()) sink.file("answers.html", answer_page(shown, "Answers about held-out pictures"));
}

std::vector<Metric> VlmTask::metrics() {
  return {
      {.name = "loss", .help = "cross-entropy per target token, in nats"},
      {.name = "perplexity", .help = "exp(loss)", .source = "loss", .aggregate = PL_AGGREGATE_EXP_MEAN},
      {.name = "exact",
       .help = "share of the answers that are right, as SQuAD compares them",
       .better = PL_BETTER_HIGHER},
      {.name = "f1", .help = "F1 of an answer's words", .better = PL_BETTER_HIGHER},
      {.name = "blind_loss", .help = "the loss with the picture withheld"},
      {.name = "blind_exact", .help = "exact with the picture withheld", .better = PL_BETTER_HIGHER},
      {.name = "blind_f1", .help = "f1 with the picture withheld", .better = PL_BETTER_HIGHER},
      {.name = "majority_exact",
       .help = "exact of the question's most frequent answer in the training data",
       .better = PL_BETTER_HIGHER},
      {.name = "majority_f1", .help = "f1 of that answer", .better = PL_BETTER_HIGHER},
  };
}

}  // namespace pipeline::tasks::vlm
