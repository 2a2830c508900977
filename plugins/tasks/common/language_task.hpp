// What tasks with a tokenizer share, and the base of those whose model is a language model.
#pragma once

#include <pipeline/context.hpp>
#include <pipeline/model_options.hpp>
#include <pipeline/torch/task.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hugging_face/token_ids.hpp"
#include "language/folder.hpp"
#include "language/language_model.hpp"
#include "language/options.hpp"
#include "plugins/tasks/common/loss_metrics.hpp"
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
  // Is given what is wrong with the option tokenizer.path, and throws.
  using Refuse = std::function<void(const std::string& problem)>;

  // `options` must outlive this.
  TaskTokenizer(const tokenizer::TokenizerOptions& options, const Context& context, Refuse refuse)
      : options_(options), context_(context), refuse_(std::move(refuse)) {}

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
  const tokenizer::TokenizerOptions& options_;
  Context context_;
  Refuse refuse_;
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
                                                    const ModelOptions& say);

// The model starts as the folder's, and the tokenizer carries what lies beside its weights. The log has what
// became of tokens that one of the two lacks.
void import_language_model(const std::filesystem::path& folder, const Context& context,
                           const adapters::LoraOptions& lora, language::LanguageModel& model,
                           TaskTokenizer& tokenizer);

// Writes the model or its adapter, with the tokenizer's files.
void export_language_model(const std::filesystem::path& folder, const Context& context,
                           const adapters::LoraOptions& lora, const language::LanguageModel& model,
                           const TaskTokenizer& tokenizer);

// The base of a task whose model is a language model. ConfigT has the groups `tokenizer`, `language` (with
// `lora`) and `loss`; BatchT has `packed`, a language::PackedBatch, `ids` of its samples, and `sources` of
// these, where training has several. The task opens tokenizer(), and names the token that ends what is
// written.
template <class ConfigT, class BatchT>
class LanguageTask : public TorchTask<ConfigT, language::LanguageModel, BatchT> {
  using Base = TorchTask<ConfigT, language::LanguageModel, BatchT>;

 public:
  static constexpr bool kHasUnits = true;

  explicit LanguageTask(typename Base::Setup setup)
      : Base(std::move(setup)),
        tokenizer_(this->config().tokenizer, this->context(),
                   [this](const std::string& problem) { this->config_error("tokenizer.path", problem); }) {}

  std::string extra_state() override { return tokenizer_->state(); }
  void set_extra_state(std::string_view state) override {
    tokenizer_.set_state(state, this->is_set("tokenizer.path"));
  }

  std::shared_ptr<language::LanguageModel> build_model() override {
    const int64_t size = tokenizer_->vocab_size(), begin = tokenizer_.own_tokens().begin,
                  end = tokenizer_->eot();
    return language::make_adapted(this->config().language.model({size, begin, end}),
                                  this->config().language.lora);
  }
  void import_model(const std::filesystem::path& folder) override {
    import_language_model(folder, this->context(), this->config().language.lora, this->model(), tokenizer_);
  }
  void export_model(const std::filesystem::path& folder) override {
    export_language_model(folder, this->context(), this->config().language.lora, this->model(), tokenizer_);
  }

  BatchInfo batch_info(const BatchT& batch) const override {
    const auto rows = static_cast<uint64_t>(batch.packed.sequences.rows());
    return {.weight = static_cast<double>(batch.packed.target_rows.size()),
            .samples = batch.ids.size(),
            .tokens = rows,
            .positions = rows};
  }
  LossSum loss(const BatchT& batch) override {
    return loss_with_metrics(
        this->context(), batch.packed, this->config().loss.of(this->pass()), batch.sources,
        [&] { return source_names(); },
        [&](const language::LossDetails& details) {
          return this->model().loss(batch.packed, this->pass(), details);
        });
  }
  double flops(const BatchT& batch) override { return this->model().flops(batch.packed); }

 protected:
  // What the sources of training are called.
  virtual std::vector<std::string> source_names() const = 0;

  TaskTokenizer& tokenizer() { return tokenizer_; }
  const TaskTokenizer& tokenizer() const { return tokenizer_; }

 private:
  TaskTokenizer tokenizer_;
};

}  // namespace pipeline::tasks::common
