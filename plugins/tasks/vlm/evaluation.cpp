#include "plugins/tasks/vlm/evaluation.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include <nlohmann/json.hpp>

#include "core/base/utf8.hpp"
#include "files/data_errors.hpp"
#include "plugins/models/llava/vlm.hpp"
#include "plugins/scores/answers/answer_page.hpp"
#include "plugins/scores/answers/answer_score.hpp"
#include "plugins/scores/recall/recall.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::tasks::vlm {
namespace {

using answers::AnswerScore;
using answers::score_answer;
using answers::ScoredAnswer;
using answers::ShownAnswer;
using common::one_line;
using picture_texts::plain_question;

constexpr const char *kScoredRecord = "scored", *kScoresRecord = "scores";
// Values by question, for the table: "exact of What is this?".
constexpr std::array kKinds{"exact", "f1", "blind_exact", "blind_f1", "majority_exact", "majority_f1"};

uint64_t picture_of(const Conversation& conversation) {
  if (conversation.images.empty()) return files::hash128(conversation.turns[0].text).low;
  std::string all;
  for (const messages::Picture& picture : conversation.images)
    all += picture.name + '\0' + picture.bytes + '\0';
  return files::hash128(all).low;
}

// What people answered to the first question: one, or several.
std::vector<std::string> truths_of(const Conversation& conversation) {
  if (!conversation.answers.empty()) return conversation.answers;
  return {conversation.turns[1].text};
}

// For one picture, the log-likelihood of each caption after it: (captions). `prompt`: what stands before a
// caption, the picture's patches as tokens below 0; `captions`: their tokens, the end included.
std::vector<float> caption_scores(const generation::DecoderModel& model, const std::vector<int64_t>& prompt,
                                  const std::vector<std::vector<int64_t>>& captions, at::ScalarType compute) {
  size_t longest = 0;
  for (const auto& caption : captions) longest = std::max(longest, caption.size());
  // The picture is seen once; each caption then goes on from there in a slot of its own.
  generation::Decoder decoder(model, {prompt}, static_cast<int64_t>(captions.size()),
                              static_cast<int64_t>(longest), compute);
  std::vector<double> sums(captions.size(), 0);
  std::vector<int64_t> slots(captions.size());
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  at::Tensor log_p =
      at::log_softmax(decoder.prompt_logits(), 1).expand({static_cast<int64_t>(slots.size()), -1});
  for (size_t at = 0; !slots.empty(); ++at) {
    std::vector<int64_t> tokens;
    for (const int64_t slot : slots) tokens.push_back(captions[static_cast<size_t>(slot)][at]);
    const at::Tensor chosen = log_p.gather(1, transformer::to_device(tokens, model.device()).unsqueeze(1))
                                  .squeeze(1)
                                  .to(at::kCPU)
                                  .contiguous();
    for (size_t i = 0; i < slots.size(); ++i)
      sums[static_cast<size_t>(slots[i])] += chosen.const_data_ptr<float>()[i];
    std::vector<int64_t> left, next;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (at + 1 >= captions[static_cast<size_t>(slots[i])].size()) continue;
      left.push_back(slots[i]);
      next.push_back(tokens[i]);
    }
    slots = std::move(left);
    if (!slots.empty()) log_p = at::log_softmax(decoder.append(slots, next), 1);
  }
  return {sums.begin(), sums.end()};
}

// The rows of the questions' pictures among the batch's `seen`; undefined where there are none.
at::Tensor rows_of(const VlmTaskBatch& batch, const at::Tensor& seen,
                   const std::vector<Conversation>& conversations, const std::vector<Asked>& questions) {
  std::vector<int64_t> rows;
  for (const Asked& one : questions)
    if (!batch.pictures.samples[one.sample].is_broken)
      batch.pictures.append_rows(one.sample, pictures_until(conversations[one.sample], one.question), rows);
  if (rows.empty()) return {};
  return seen.index_select(0, transformer::to_device(rows, seen.device()));
}

}  // namespace

const answers::MajorityAnswers& Evaluation::majority() {
  if (majority_) return *majority_;
  majority_.emplace();
  for (const PictureSource& source : data_.of(Split::kTrain).stores())
    for (uint64_t record = 0; record < source.size(); ++record) {
      const std::vector<Turn> turns = source.conversations[record].turns;
      for (size_t i = 0; i + 1 < turns.size(); i += 2)
        majority_->add(plain_question(turns[i].text), turns[i + 1].text);
    }
  return *majority_;
}

void Evaluation::evaluate(const VlmTaskBatch& batch, const Inference& inference, EvaluationSink& sink) {
  std::vector<Conversation> conversations;
  for (const uint64_t id : batch.ids) conversations.push_back(data_.conversation(batch.split, id));
  score_answers(batch, inference, conversations, sink);
  if (sink.purpose() == Purpose::kValidate) return;
  score_without_pictures(batch, inference, conversations, sink);
  score_retrieval(batch, inference, conversations, sink);
}

std::vector<std::string> Evaluation::answers(const VlmTaskBatch& batch, const Inference& inference,
                                             const std::vector<Conversation>& conversations,
                                             const std::vector<Asked>& questions, Purpose purpose,
                                             bool with_pictures) const {
  at::Tensor seen;
  if (with_pictures && batch.has_pictures())
    seen = rows_of(batch, inference.model.features(batch, inference.pass), conversations, questions);
  const GenerateOptions& wanted = config_.generate;
  std::vector<generation::Prompt> prompts;
  for (const Asked& asked : questions) {
    const Conversation& conversation = conversations[asked.sample];
    std::vector<int64_t> tokens =
        data_.chat().prompt(conversation, asked.question, wanted.max_tokens,
                            with_pictures ? batch.pictures.tokens_of(asked.sample) : PictureTokens());
    if (tokens.empty())
      fail_with(PL_ERROR_CONFIG, "conversation ", printable(conversation.id, ""), ": question ",
                asked.question + 1, " does not fit beside an answer of ", wanted.max_tokens,
                " tokens: raise task.chat.max_tokens (", config_.chat.max_tokens, ") or shorten it");
    prompts.push_back({.id = batch.ids[asked.sample], .tokens = std::move(tokens)});
  }
  const llava::SeeingDecoder decoder(inference.model.language(), seen);
  const auto options = writing(inference).options(batch.split, purpose, "answer", [&](size_t i) {
    return printable(conversations[questions[i].sample].id, "");
  });
  std::vector<std::string> texts;
  for (const std::vector<int64_t>& tokens : generation::generate(decoder, prompts, options))
    texts.push_back(data_.chat().answer_text(tokens));
  return texts;
}

// Scores the first question alone: its answer gives others away.
void Evaluation::score_answers(const VlmTaskBatch& batch, const Inference& inference,
                               const std::vector<Conversation>& conversations, EvaluationSink& sink) {
  const bool is_full = sink.purpose() != Purpose::kValidate,
             has_training = data_.of(Split::kTrain).size() > 0;
  const generation::ScoredSamples& scored = config_.generate;
  std::vector<Asked> questions;
  for (size_t i = 0; i < conversations.size(); ++i) {
    if (!scored.includes(sink.purpose(), batch.ids[i]) && i >= sink.samples_left()) continue;
    if (batch.pictures.samples[i].is_broken) continue;
    if (conversations[i].turns.size() > 1) questions.push_back({i, 0});
  }
  if (questions.empty()) return;
  const std::vector<std::string> written =
      answers(batch, inference, conversations, questions, sink.purpose(), true);
  const std::vector<std::string> blind =
      is_full ? answers(batch, inference, conversations, questions, sink.purpose(), false)
              : std::vector<std::string>(written.size());
  for (size_t i = 0; i < questions.size(); ++i) {
    const Conversation& conversation = conversations[questions[i].sample];
    const uint64_t id = batch.ids[questions[i].sample];
    const std::string question = plain_question(conversation.turns[0].text);
    const std::vector<std::string> truths = truths_of(conversation);
    const std::string truth = answers::shown_truths(truths);
    const ScoredAnswer score(picture_of(conversation), question.empty(), truths, written[i]);
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
        has_training ? score_answer(truths, majority().answer(question)) : AnswerScore{};
    const std::array values{score.exact, score.f1, without.exact, without.f1, usual.exact, usual.f1};
    const bool is_common = has_training && majority().is_common(question);
    for (size_t k = 0; k < kKinds.size(); ++k) {
      if (k >= 2) sink.value(kKinds[k], values[k], 1);
      if (is_common) sink.value(concat(kKinds[k], " of ", question), values[k], 1);
    }
    if (id >= answers::kShownSamples) continue;
    ShownAnswer shown{.id = conversation.id, .pictures = {}, .texts = {}, .right = score.exact == 1};
    if (!question.empty()) shown.texts.emplace_back("question", question);
    shown.texts.emplace_back("truth", truth);
    shown.texts.emplace_back("answer", written[i]);
    for (size_t p = 0; p < pictures_until(conversation, 0); ++p)
      if (std::string png = data_.pictures(batch.split, id).png(conversation.images[p]); !png.empty())
        shown.pictures.push_back(std::move(png));
    if (!shown.pictures.empty()) shown.texts.emplace_back("unseen", blind[i]);
    answers::show(id, shown, sink);
  }
}

// The loss of the same texts when nothing is seen.
void Evaluation::score_without_pictures(const VlmTaskBatch& batch, const Inference& inference,
                                        const std::vector<Conversation>& conversations,
                                        const EvaluationSink& sink) const {
  const LoadRequest request{batch.split, sink.purpose(), batch.ids, 0};
  const VlmTaskBatch blind = batch_on(inference.device, data_.batch_without_pictures(conversations, request));
  sink.value("blind_loss", inference.model.loss(blind, inference.pass).sum.item<double>(),
             static_cast<double>(blind.packed.target_rows.size()));
}

// The pictures with captions that are told apart: the first ones of the split.
const std::vector<uint64_t>& Evaluation::retrieved(Split split) {
  auto& ids = retrieved_[static_cast<size_t>(split)];
  if (ids) return *ids;
  ids.emplace();
  const auto most = static_cast<size_t>(config_.generate.retrieval);
  for (uint64_t id = 0; id < data_.of(split).size() && ids->size() < most; ++id) {
    const Conversation one = data_.conversation(split, id);
    if (!one.images.empty() && one.turns.size() == 2 && plain_question(one.turns[0].text).empty())
      ids->push_back(id);
  }
  return *ids;
}

void Evaluation::score_retrieval(const VlmTaskBatch& batch, const Inference& inference,
                                 const std::vector<Conversation>& conversations, const EvaluationSink& sink) {
  const std::vector<uint64_t>& all = retrieved(batch.split);
  std::vector<std::vector<int64_t>> captions;
  at::Tensor seen;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    if (batch.pictures.samples[i].is_broken || !std::binary_search(all.begin(), all.end(), batch.ids[i]))
      continue;
    if (captions.empty())
      for (const uint64_t id : all)
        captions.push_back(data_.chat().answer(data_.conversation(batch.split, id), 0));
    if (!seen.defined()) seen = inference.model.features(batch, inference.pass);
    const llava::SeeingDecoder decoder(inference.model.language(),
                                       rows_of(batch, seen, conversations, {{i, 0}}));
    const std::vector<float> scores =
        caption_scores(decoder, data_.chat().prompt(conversations[i], 0, 1, batch.pictures.tokens_of(i)),
                       captions, inference.pass.compute);
    sink.record(batch.ids[i], kScoresRecord, files::bytes_of(scores));
  }
}

void Evaluation::report(const Report& report, const ReportSink& sink) const {
  std::vector<ScoredAnswer> scored;
  std::vector<float> scores;
  size_t pictures = 0;
  for (const EvaluationRecord& record : report.records) {
    if (record.key == kScoredRecord) scored.push_back(ScoredAnswer::unpack(record.bytes));
    if (record.key != kScoresRecord) continue;
    const size_t before = scores.size(), count = record.bytes.size() / sizeof(float);
    scores.resize(before + count);
    std::memcpy(scores.data() + before, record.bytes.data(), record.bytes.size());
    ++pictures;
  }
  if (!scored.empty()) answers::report_answers(scored, sink, [this] { context_.throw_if_cancelled(); });
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
  answers::report_shown(report, "Answers about held-out pictures", sink);
}

std::vector<Metric> Evaluation::metrics() {
  std::vector<Metric> all = common::loss_metrics();
  const auto add = [&](const char* name, const char* help, uint32_t better = PL_BETTER_HIGHER) {
    all.push_back({.name = name, .help = help, .better = better});
  };
  add("exact", "share of the answers that are right, as SQuAD compares them");
  add("f1", "F1 of an answer's words");
  add("blind_loss", "the loss with the picture withheld", Metric().better);
  add("blind_exact", "exact with the picture withheld");
  add("blind_f1", "f1 with the picture withheld");
  add("majority_exact", "exact of the question's most frequent answer in the training data");
  add("majority_f1", "f1 of that answer");
  return all;
}

void Evaluation::predict(const VlmTaskBatch& batch, const Inference& inference,
                         const PredictionSink& sink) const {
  std::vector<Conversation> conversations;
  std::vector<Asked> questions;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    conversations.push_back(data_.conversation(batch.split, batch.ids[i]));
    questions.push_back({i, last_question(conversations[i])});
  }
  const std::vector<std::string> written =
      answers(batch, inference, conversations, questions, Purpose::kPredict, true);
  for (size_t i = 0; i < questions.size(); ++i) {
    const Turn& question = conversations[i].turns[2 * questions[i].question];
    sink.row(batch.ids[i], {plain_question(question.text), written[i]});
    if (data_.is_asked()) context_.info(written[i]);
  }
}

// Pictures that a user shows are named by paths of files.
void Evaluation::reply(std::string_view messages, const Inference& inference, const ReplySink& sink) const {
  Conversation conversation;
  const VlmTaskBatch batch = batch_on(
      inference.device, files::with_data_errors([&] {
        conversation = picture_texts::conversation_about_pictures(
            {{"messages", nlohmann::ordered_json::parse(messages)}});
        if (const std::string problem = picture_texts::problem_of(conversation, false); !problem.empty())
          throw files::DataError(problem);
        return data_.batch_of_pictures(conversation);
      }));
  const int64_t most = config_.generate.max_tokens;
  const size_t question = last_question(conversation);
  generation::Prompt prompt{
      .tokens = data_.chat().prompt(conversation, question, most, batch.pictures.tokens_of(0))};
  if (prompt.tokens.empty())
    fail_with(PL_ERROR_CONFIG,
              "the question is too long for task.chat.max_tokens = ", config_.chat.max_tokens,
              ", with its pictures and an answer of ", most);
  at::Tensor seen;
  if (batch.has_pictures())
    seen = rows_of(batch, inference.model.features(batch, inference.pass), {conversation}, {{0, question}});
  writing(inference).reply(llava::SeeingDecoder(inference.model.language(), seen), std::move(prompt),
                           conversation.turns.size(), data_.chat().format(), sink);
}

}  // namespace pipeline::tasks::vlm
