// The base of text tasks: a language model learns to write the end of a text. Samples are packed end to end
// without padding. How a record becomes tokens, and what is scored of what the model writes, is the task's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/data_errors.hpp"
#include "plugins/tasks/common/language_task.hpp"
#include "plugins/tasks/common/writing.hpp"
#include "plugins/tasks/text/data.hpp"
#include "plugins/tasks/text/teacher_store.hpp"

namespace pipeline::tasks::text {

using common::Answered;
using common::Question;

struct TextBatch {
  language::PackedBatch packed;
  std::vector<uint64_t> ids;
  Split split = Split::kTrain;
  std::vector<size_t> sources;                  // of each sample, where training has several
  std::vector<int64_t> ends;                    // of the samples, as rows
  transformer::LikeliestTokens likeliest = {};  // what a teacher has said, if it has

  template <class V>
  void tensors(V&& visit) {
    packed.tensors(visit);
    if (!likeliest.ids.defined()) return;
    visit(likeliest.ids);
    visit(likeliest.log_p);
  }
};

// BatchT: a TextBatch, or made of one. Beside what LanguageTask wants, ConfigT has the groups `data`,
// sources::SplitOptions, `generate`, generation::DecodingOptions, and `ask` with `prompt`.
template <class ConfigT, class BatchT = TextBatch>
class TextTask : public common::LanguageTask<ConfigT, BatchT> {
  using Base = common::LanguageTask<ConfigT, BatchT>;

 public:
  using Base::Base;

  void prepare() override {
    open_corpus();
    ask_teacher();
  }
  void open_data() override {
    if (!corpus_) prepare();  // another process has prepared
    this->tokenizer().set_end(open_rules());
    if (logs_data()) log_data();
  }

  uint64_t sample_count(Split split) const override { return corpus_->size(split); }
  double sample_cost(Split split, uint64_t id) const override {
    double tokens = 0;
    for (const Sequence& one : sequences(corpus_->sample(split, id)))
      tokens += static_cast<double>(one.tokens.size());
    return tokens;
  }
  std::string sample_name(Split split, uint64_t id) const override {
    return name_of(corpus_->sample(split, id));
  }
  std::string data_fingerprint() override {
    return corpus_->fingerprint() + (teacher_store_ ? " " + teacher_store_->fingerprint() : "");
  }

  BatchT make_batch(const LoadRequest& request) const override {
    std::vector<std::vector<int64_t>> tokens, targets;
    std::vector<int64_t> ends;
    int64_t rows = 0;
    for (const uint64_t id : request.ids) {
      for (Sequence& one : sequences(corpus_->sample(request.split, id, request.epoch))) {
        rows += static_cast<int64_t>(one.tokens.size());
        tokens.push_back(std::move(one.tokens));
        targets.push_back(std::move(one.targets));
      }
      ends.push_back(rows);
    }
    BatchT batch;
    batch.packed = transformer::pack(tokens, targets);
    batch.ids.assign(request.ids.begin(), request.ids.end());
    batch.split = request.split;
    batch.ends = std::move(ends);
    if (request.split == Split::kTrain) batch.sources = corpus_->training().sources_of(request.ids);
    if (teacher_store_ && request.split == Split::kTrain)
      batch.likeliest = likeliest_of(request, batch.packed);
    batch.packed.full_length = max_tokens();
    require_ids(batch.packed.tokens, this->tokenizer()->vocab_size(), "token");
    require_ids(batch.packed.targets, this->tokenizer()->vocab_size(), "target");
    return batch;
  }

  void evaluate(const BatchT& batch, EvaluationSink& sink) override {
    Base::evaluate(batch, sink);
    evaluate_answers(batch, sink);
  }
  // What the model writes.
  void evaluate_answers(const BatchT& batch, EvaluationSink& sink) {
    std::vector<uint64_t> ids;
    for (size_t i = 0; i < batch.ids.size(); ++i)
      if ((is_scored(sink.purpose(), batch.ids[i]) || i < sink.samples_left()) &&
          is_answered(corpus_->sample(batch.split, batch.ids[i])))
        ids.push_back(batch.ids[i]);
    if (ids.empty()) return;
    for (const Answered& one : answer(batch.split, sink.purpose(), ids)) {
      sink.sample(one.id, common::sample_text(one, longest_line()));
      if (is_scored(sink.purpose(), one.id)) score(one, sink);
    }
  }
  void predict(const BatchT& batch, const PredictionSink& sink) override {
    if (shows_logits()) return show_logits(batch, sink);
    for (const Answered& one : answer(batch.split, Purpose::kPredict, batch.ids)) {
      sink.row(one.id, row(one));
      if (!this->config().ask.prompt.empty()) this->context().info(one.answer);
    }
  }

 protected:
  // Data.
  virtual tokenizer::TrainingTexts training_texts() const = 0;  // for a tokenizer that is trained on them
  virtual Reading reading(const sources::SourceFiles& files, Split split,
                          const files::SplitPart& part) const = 0;
  virtual std::string asked_sample() const = 0;  // of task.ask
  // Called when there is a tokenizer, and no data yet.
  virtual void open_tokenizer() {}
  // Called when there are data in the cache. Returns the token that ends what is written.
  virtual int64_t open_rules() = 0;
  // What the log calls samples: "pairs".
  virtual const char* noun() const = 0;
  virtual const char* held_out_noun() const { return "usable records"; }
  virtual bool logs_data() const = 0;

  // Parts of a sample.
  virtual std::string name_of(const stores::TokenSample& sample) const = 0;
  // For learning and evaluating; none sees another.
  virtual std::vector<Sequence> sequences(const stores::TokenSample& sample) const = 0;
  // What of the options they depend on, if the cache has samples that they do not decide.
  virtual std::string sequence_rules() const { return ""; }
  virtual int64_t max_tokens() const = 0;  // of a sample

  // Evaluation.
  virtual bool is_scored(Purpose purpose, uint64_t id) const = 0;
  virtual bool is_answered(
      const stores::TokenSample& sample) const = 0;  // there is something to compare with
  virtual Question question(const stores::TokenSample& sample) const = 0;
  virtual std::string written_text(const std::vector<int64_t>& tokens) const = 0;
  virtual const char* written_noun() const = 0;  // "answer"
  virtual void score(const Answered& one, EvaluationSink& sink) const = 0;
  virtual size_t longest_line() const { return std::string::npos; }     // in the log
  virtual std::vector<std::string> row(const Answered& one) const = 0;  // of a prediction
  // What is asked in a sample, as chat templates read it; "": it is no conversation, or one that is cut.
  virtual std::string messages_of(const stores::TokenSample& /*sample*/) const { return ""; }
  // Whether predictions are what the model says of tokens: common::logits_columns().
  bool shows_logits() const {
    if constexpr (requires(const ConfigT& config) { config.ask.show; })
      return this->config().ask.show == "logits";
    else
      return false;
  }

  std::vector<std::string> source_names() const override { return corpus_->training().names(); }

  Corpus& corpus() { return *corpus_; }
  const Corpus& corpus() const { return *corpus_; }

  common::Writing writing() {
    return {this->context(), this->config().generate, this->tokenizer().ends(), this->pass().compute};
  }
  // The questions of these samples with what the model writes.
  virtual std::vector<Answered> answer(Split split, Purpose purpose, const std::vector<uint64_t>& ids) {
    return answer_by(this->model(), split, purpose, ids);
  }
  std::vector<Answered> answer_by(const language::LanguageModel& model, Split split, Purpose purpose,
                                  const std::vector<uint64_t>& ids) {
    std::vector<Answered> all;
    std::vector<generation::Prompt> prompts;
    for (const uint64_t id : ids) {
      all.push_back(
          {.id = id, .question = question(corpus_->sample(split, id)), .answer = {}, .split = split});
      prompts.push_back({.id = id, .tokens = all.back().question.prompt});
    }
    const std::vector<std::vector<int64_t>> written =
        generation::generate(model, prompts, writing().options(split, purpose, written_noun(), [&](size_t i) {
          return common::one_line(all[i].question.name);
        }));
    for (size_t i = 0; i < all.size(); ++i) all[i].answer = written_text(written[i]);
    return all;
  }

 private:
  void show_logits(const BatchT& batch, const PredictionSink& sink) {
    for (const uint64_t id : batch.ids) {
      const stores::TokenSample sample = corpus_->sample(batch.split, id);
      Question asked = question(sample);
      const generation::GenerationOptions options =
          writing().options(batch.split, Purpose::kPredict, written_noun(),
                            [&](size_t) { return common::one_line(asked.name); });
      sink.row(id, common::logits_row({.prompt = std::move(asked.text),
                                       .messages = messages_of(sample),
                                       .prompt_tokens = std::move(asked.prompt),
                                       .tokens = sequences(sample).front().tokens},
                                      this->model(), options));
    }
  }

  void open_corpus() {
    corpus_.emplace(
        this->config().data, this->context(), this->tokenizer(),
        [this](const sources::SourceFiles& files, Split split, const files::SplitPart& part) {
          return reading(files, split, part);
        },
        this->errors());
    files::with_data_errors([&] {
      this->tokenizer().open([&] { return training_texts(); });
      open_tokenizer();
      if (this->run().purpose == PL_PURPOSE_PREDICT && !this->config().ask.prompt.empty())
        corpus_->ask(asked_sample());
      corpus_->prepare();
    });
  }

  void ask_teacher() {
    if constexpr (Base::kMayHaveTeacher)
      if (this->has_teacher() && this->config().teacher.is_kept()) {
        common::require_same_tokens(this->config().teacher.init_from, this->tokenizer(), this->errors());
        this->tokenizer().set_end(open_rules());
        const Asking asking{
            .teacher = this->config().teacher,
            .context = this->context(),
            .vocabulary = this->model_config().vocab_size,
            .max_tokens = max_tokens(),
            .rules = sequence_rules(),
            .sequences = [this](const stores::TokenSample& sample) { return sequences(sample); }};
        files::with_data_errors([&] { teacher_store_.emplace(asking, *corpus_); });
      }
  }
  transformer::LikeliestTokens likeliest_of(const LoadRequest& request,
                                            const language::PackedBatch& packed) const {
    std::vector<sources::Mixture::Place> places;
    for (const uint64_t id : request.ids) places.push_back(corpus_->training().place(request.epoch, id));
    transformer::LikeliestTokens found = files::with_data_errors([&] { return teacher_store_->of(places); });
    if (const auto targets = static_cast<int64_t>(packed.target_rows.size()); found.ids.size(0) != targets)
      fail("the teacher was asked at ", found.ids.size(0), " targets of a batch that has ", targets,
           ": remove the files *.teacher in run.cache_dir, and run again");
    return found;
  }

  void log_data() {
    for (const Split split : {Split::kTrain, Split::kVal, Split::kTest})
      static_cast<void>(corpus_->size(split));
    corpus_->log_held_out(held_out_noun());
    if (this->run().purpose == PL_PURPOSE_EVALUATE)
      corpus_->leave_out_unanswered("have nothing to compare with");
    corpus_->log_sizes(noun());
  }

  std::optional<Corpus> corpus_;
  std::optional<TeacherStore> teacher_store_;  // that is not asked in every step
};

}  // namespace pipeline::tasks::text
