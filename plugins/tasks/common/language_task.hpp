// What tasks with a tokenizer share, and the base of those whose model is a language model.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/model_options.hpp>
#include <pipeline/torch/task.hpp>
#include <pipeline/torch/tensor.hpp>

#include <ATen/ops/empty.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "generation/generate.hpp"
#include "hugging_face/token_ids.hpp"
#include "language/folder.hpp"
#include "language/language_model.hpp"
#include "language/options.hpp"
#include "language/teacher.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::messages {
struct StoredTexts;
}

namespace pipeline::tasks::common {

// A task's tokenizer: where it comes from, which tokens end what is written, and the texts of the weights'
// folder, which it carries through checkpoints to the folder that is exported. [main], but for the tokenizer
// itself.
class TaskTokenizer {
 public:
  // `options` and `errors`, of the task, must outlive this.
  TaskTokenizer(const tokenizer::TokenizerOptions& options, const Context& context,
                const ConfigErrors& errors)
      : options_(options), context_(context), errors_(errors) {}

  // Takes the tokenizer that a checkpoint carries: see Task::set_extra_state().
  void set_state(std::string_view state, bool is_path_set);
  // Afterwards there is a tokenizer: the checkpoint's, else that of the options, else one trained on texts().
  void open(const std::function<tokenizer::TrainingTexts()>& texts);
  // Puts the same tokenizer with other files in its place.
  void replace(tokenizer::TokenizerPtr tokenizer) { tokenizer_ = std::move(tokenizer); }
  // `use`: what that token is for, for the error where the tokenizer has none: "which an answer ends with".
  void require_end_of_text(const char* use) const;

  const tokenizer::Tokenizer& operator*() const { return *tokenizer_; }
  const tokenizer::Tokenizer* operator->() const { return tokenizer_.get(); }
  const tokenizer::TokenizerPtr& shared() const { return tokenizer_; }
  bool is_open() const { return tokenizer_ != nullptr; }
  bool is_kept() const { return kept_ != nullptr; }  // it came with the weights
  // Whether it is there before any data are read.
  bool is_given() const { return is_kept() || !options_.path.empty(); }
  // For the log: "vocabulary of 4096, as the weights have it".
  std::string size_text() const;

  // From now on `token` ends what is written, and so do the tokens that the weights' folder names.
  void set_end(int64_t token);
  const std::vector<int64_t>& ends() const { return ends_; }
  // For the numbers in a folder's config.json.
  hugging_face::OwnTokens own_tokens() const;

  // Refuses weights of `folder` for a tokenizer that is trained here.
  void require_path(const std::filesystem::path& folder) const;
  // From now on the tokenizer carries these texts of the folder that the model, or a part of it, comes from.
  // Numbers in them that are no tokens here are left out, with a warning.
  void carry(const std::filesystem::path& folder, const tokenizer::Files& files);

 private:
  [[noreturn]] void refuse(const std::string& problem) const { errors_("tokenizer.path", problem); }

  const tokenizer::TokenizerOptions& options_;
  Context context_;
  const ConfigErrors& errors_;
  tokenizer::TokenizerPtr kept_, tokenizer_;
  int64_t end_ = 0;
  std::vector<int64_t> ends_;
};

// All turns of stored conversations, for a tokenizer of `size` tokens. `noun`, for the log: "captions".
tokenizer::TrainingTexts training_texts(const messages::StoredTexts& texts, int64_t size, const char* noun);

// For read_model(): says what a language model's folder has of [task.tokenizer] and [task.language], and
// checks its weights. Returns its configuration; nothing where no folder is named.
std::optional<language::Config> read_language_model(const tokenizer::TokenizerOptions& tokenizer,
                                                    const language::LanguageOptions& language,
                                                    const std::filesystem::path& init_from,
                                                    const ModelOptions& say,
                                                    language::Heads heads = language::Heads::kWords);

// Of a task whose option `family` is "language" or "encoder": refuses options of the one that it is not,
// which are `group` in the table `table`.
template <class Group>
void refuse_other_family(const ConfigErrors& errors, bool is_language, const std::string& table,
                         Group group) {
  const auto [family, other] =
      is_language ? std::pair("language", "encoder") : std::pair("encoder", "language");
  Options options;
  group.describe(options);
  for (const std::string& key : options.keys())
    if (const std::string full = concat(table, ".", key); errors.is_set(full))
      errors(full, concat("is of no use with task.family = \"", family, "\": set task.family = \"", other,
                          "\", or leave it out"));
}

// The model starts as the folder's, and the tokenizer carries what lies beside its weights. The log has what
// became of tokens that one of the two lacks, and that a head for labels is new where neither the folder nor
// the adapter has one. Throws an Error then, unless the run trains it.
void import_language_model(const std::filesystem::path& folder, const Context& context,
                           const adapters::LoraOptions& lora, language::LanguageModel& model,
                           TaskTokenizer& tokenizer);

// After the weights of an encoder's folder were imported: the tokenizer carries what lies beside them, and
// `kept` of the weights. The log has what became of tokens that one of the two lacks.
void take_encoder_texts(const std::filesystem::path& folder, const Context& context, int64_t their_tokens,
                        std::string kept, TaskTokenizer& tokenizer);

// Refuses a tokenizer that has a word where the kind of an encoder, the option `key`, must have the token for
// padding; -1: it may be any.
void require_padding(int64_t token, const TaskTokenizer& tokenizer, const ConfigErrors& errors,
                     const char* key);

// A tokenizer that was trained here says of itself nothing of what ends a text, or pads it. In an encoder's
// folder it does, so that transformers makes of a text what the model has read.
void frame_exported_texts(const std::filesystem::path& folder, const TaskTokenizer& tokenizer);

// Writes the model or its adapter, with the tokenizer's files.
void export_language_model(const std::filesystem::path& folder, const Context& context,
                           const adapters::LoraOptions& lora, const language::LanguageModel& model,
                           const TaskTokenizer& tokenizer);

// An exported folder names a token for padding, as transformers takes no batches of texts without one, and
// looks for the last token that is another: so not `last`, the one that texts end with.
void choose_padding(const std::filesystem::path& folder, const TaskTokenizer& tokenizer,
                    std::optional<int64_t> last, const Context& context);

// Refuses the folder of a teacher whose tokens are others.
void require_same_tokens(const std::filesystem::path& folder, const TaskTokenizer& tokenizer,
                         const ConfigErrors& errors);

// Metrics of a step beside its loss. With terms in `details`: "cross_entropy", the mean over all targets
// without them. With `sources`, that of each sample: "loss/NAME", the mean cross entropy of a source's
// targets, and "samples/NAME". ends: of the samples, as rows of the batch.
void add_loss_metrics(const Context& context, const language::PackedBatch& batch,
                      const language::LossDetails& details, const std::vector<size_t>& sources,
                      std::span<const int64_t> ends, const std::vector<std::string>& names);

// "loss/NAME", the mean of the losses, (N), that are of a source, and "samples/NAME". source_of: of each
// loss; sources: of each sample.
void add_source_metrics(const Context& context, const at::Tensor& losses, std::span<const size_t> source_of,
                        std::span<const size_t> sources, const std::vector<std::string>& names);

// What a prediction shows of a sample where task.ask.show = "logits", for `pipeline verify`: the prompt's
// text and tokens, its conversation as messages (JSON; "": it is none), the sample's tokens, what the model
// says behind each of them, as [[[token, log-probability], ...], ...] of the likeliest, and the tokens that
// it writes behind the prompt, each the likeliest; ended: 1 where it has written one that ends a text.
std::vector<std::string> logits_columns();
struct Said {
  std::string prompt, messages;
  std::vector<int64_t> prompt_tokens, tokens;
};
std::vector<std::string> logits_row(const Said& said, const language::LanguageModel& model,
                                    generation::GenerationOptions options);

// How much a batch is, of which each row is a token.
BatchInfo info_of(const language::PackedBatch& batch, double weight, size_t samples);

// The base of a task with a tokenizer, which its checkpoints carry: TaskT, over a Config with the group
// `tokenizer`. The task opens tokenizer(), and names the token that ends what is written.
template <class TaskT>
class TokenizerTask : public TaskT {
 public:
  static constexpr bool kHasUnits = true, kIsSameOnAnyThreads = true;

  explicit TokenizerTask(typename TaskT::Setup setup)
      : TaskT(std::move(setup)), tokenizer_(this->config().tokenizer, this->context(), this->errors()) {}

  std::string extra_state() override { return tokenizer_->state(); }
  void set_extra_state(std::string_view state) override {
    tokenizer_.set_state(state, this->is_set("tokenizer.path"));
  }

 protected:
  TaskTokenizer& tokenizer() { return tokenizer_; }
  const TaskTokenizer& tokenizer() const { return tokenizer_; }

 private:
  TaskTokenizer tokenizer_;
};

// The base of a task whose model learns the next token of sequences. ConfigT may have the group `loss`;
// BatchT has `packed`, a language::PackedBatch, `ids` of its samples, and `sources` of these, where training
// has several; `ends` of the samples, as rows, unless each is a sequence.
template <class ConfigT, class ModelT, class BatchT>
class SequenceTask : public TokenizerTask<TorchTask<ConfigT, ModelT, BatchT>> {
  using Base = TokenizerTask<TorchTask<ConfigT, ModelT, BatchT>>;

 public:
  using Base::Base;

  BatchInfo batch_info(const BatchT& batch) const override {
    return info_of(batch.packed, static_cast<double>(batch.packed.target_rows.size()), batch.ids.size());
  }
  LossSum loss(const BatchT& batch) override {
    language::LossDetails details;
    if constexpr (requires { this->config().loss; }) details.terms = this->config().loss.of(this->pass());
    const bool has_metrics = details.terms.any() || !batch.sources.empty();
    if (has_metrics) {
      const at::Tensor& targets = batch.packed.targets;
      details.row_losses = at::empty({targets.size(0)}, targets.options().dtype(at::kFloat));
    }
    LossSum sum = loss_of(batch, details);
    if (has_metrics)
      add_loss_metrics(this->context(), batch.packed, details, batch.sources, ends_of(batch), source_names());
    return sum;
  }
  double flops(const BatchT& batch) override { return this->model().flops(input_of(batch)); }

 protected:
  // What the sources of training are called.
  virtual std::vector<std::string> source_names() const = 0;
  virtual LossSum loss_of(const BatchT& batch, const language::LossDetails& details) {
    return this->model().loss(input_of(batch), this->pass(), details);
  }

 private:
  static std::span<const int64_t> ends_of(const BatchT& batch) {
    if constexpr (requires { batch.ends; })
      return batch.ends;
    else
      return std::span(batch.packed.sequences.starts).subspan(1);
  }
  static const auto& input_of(const BatchT& batch) {
    if constexpr (std::is_same_v<ModelT, language::LanguageModel>)
      return batch.packed;
    else
      return batch;
  }
};

// The base of a task whose model is a language model. ConfigT has the group `language`, with `lora`, too, and
// may have `teacher`; BatchT then has `likeliest`, what a teacher that is not asked in every step has said.
template <class ConfigT, class BatchT>
class LanguageTask : public SequenceTask<ConfigT, language::LanguageModel, BatchT> {
  using Base = SequenceTask<ConfigT, language::LanguageModel, BatchT>;

 public:
  using Base::Base;

  std::shared_ptr<language::LanguageModel> build_model() override {
    auto made = language::make_adapted(model_config(), this->config().language.lora);
    if constexpr (kMayHaveTeacher)
      if (has_teacher() && !this->config().teacher.is_kept()) {
        require_same_tokens(this->config().teacher.init_from, this->tokenizer(), this->errors());
        teacher_ = language::make_teacher(*made, this->config().teacher);
        this->context().info("teacher    ", language::name_of_teacher(this->config().teacher, *teacher_),
                             "; it is not trained");
      }
    return made;
  }
  double flops(const BatchT& batch) override {
    return Base::flops(batch) + (teacher_ ? teacher_->flops(batch.packed) / 3 : 0);
  }
  void import_model(const std::filesystem::path& folder) override {
    import_language_model(folder, this->context(), this->config().language.lora, this->model(),
                          this->tokenizer());
  }
  void export_model(const std::filesystem::path& folder) override {
    export_language_model(folder, this->context(), this->config().language.lora, this->model(),
                          this->tokenizer());
    if (label() && !this->config().language.lora.exports_adapter())
      choose_padding(folder, this->tokenizer(), last_token(), this->context());
  }

 protected:
  static constexpr bool kMayHaveTeacher = requires(const ConfigT& config) { config.teacher; };
  bool has_teacher() const {
    if constexpr (kMayHaveTeacher)
      return this->config().teacher.is_wanted() && this->run().purpose == PL_PURPOSE_TRAIN;
    return false;
  }
  language::Config model_config() const {
    const TaskTokenizer& tokenizer = this->tokenizer();
    language::Config model = this->config().language.model(
        {tokenizer->vocab_size(), tokenizer.own_tokens().begin, tokenizer->eot()});
    model.label = label();
    return model;
  }
  // Evaluations have no teacher: their loss stays the cross entropy.
  LossSum loss_of(const BatchT& batch, const language::LossDetails& details) override {
    if constexpr (kMayHaveTeacher)
      if (has_teacher() && this->pass().training) return taught_loss_of(batch, details);
    return Base::loss_of(batch, details);
  }
  // Of a model that has a head for labels in place of the output head.
  virtual std::optional<heads::LabelForm> label() const { return std::nullopt; }
  // The token that every text with a label ends with, if it may be a special one.
  virtual std::optional<int64_t> last_token() const { return std::nullopt; }

 private:
  LossSum taught_loss_of(const BatchT& batch, const language::LossDetails& details) {
    const auto rows = [&] {
      return at::empty({batch.packed.targets.size(0)}, batch.packed.targets.options().dtype(at::kFloat));
    };
    language::LossDetails with = details;
    if (!with.row_losses.defined()) with.row_losses = rows();
    const at::Tensor apart = rows();
    const language::TeacherOptions& options = this->config().teacher;
    with.teacher = teacher_.get();
    with.distillation = {.kind = options.divergence(),
                         .weight = options.weight,
                         .likeliest = batch.likeliest,
                         .row_losses = apart};
    LossSum sum = Base::loss_of(batch, with);
    const auto count = static_cast<double>(apart.size(0));
    this->context().metric("divergence", to_pl(apart.sum(at::kDouble)), count);
    if (!details.terms.any())  // which have it told
      this->context().metric("cross_entropy", to_pl(with.row_losses.sum(at::kDouble)), count);
    return sum;
  }

  std::unique_ptr<language::LanguageModel> teacher_;  // that is asked in every step
};

}  // namespace pipeline::tasks::common
