#include "plugins/tasks/chat/task.hpp"

#include <algorithm>

#include "files/data_errors.hpp"
#include "hugging_face/weights.hpp"
#include "language/adapter.hpp"
#include "language/folder.hpp"
#include "tokenizer/tokenizer_setup.hpp"

namespace pipeline::tasks::chat {

void Chat::set_extra_state(std::string_view state) {
  kept_tokenizer_ = tokenizer::tokenizer_of_checkpoint(
      state, is_set("tokenizer.path") ? config().tokenizer.path : std::filesystem::path(), context(),
      [&](const std::string& problem) { config_error("tokenizer.path", problem); });
}

void Chat::open_corpus() {
  corpus_.emplace(config(), context(), kept_tokenizer_,
                  [this](const char* key, const std::string& problem) { config_error(key, problem); });
}

void Chat::open_data() {
  if (!corpus_) open_corpus();  // another process has prepared
  find_ends();
  if (run().purpose != PL_PURPOSE_TRAIN) return;
  context().info("data       ", sample_count(Split::kTrain), " training, ", sample_count(Split::kVal),
                 " validation, ", sample_count(Split::kTest), " test conversations; vocabulary of ",
                 corpus_->tokenizer().vocab_size(), kept_tokenizer_ ? ", as the weights have it" : "");
  for (const std::string& line : corpus_->training().lines()) context().info(line);
}

std::shared_ptr<LanguageModel> Chat::build_model() {
  const tokenizer::Tokenizer& tokenizer = corpus_->tokenizer();
  const int32_t end = tokenizer.eot();
  return language::make_adapted(
      config().language.model({tokenizer.vocab_size(), tokenizer.bos().value_or(end), end}),
      config().language.lora);
}

// The test data may change in a continued run, and training does not see them.
std::string Chat::data_fingerprint() {
  if (run().purpose == PL_PURPOSE_TRAIN) return corpus_->fingerprint({Split::kTrain, Split::kVal});
  return corpus_->fingerprint({Split::kVal, Split::kTest});
}

Sequence Chat::sequence(Split split, uint64_t id, uint64_t epoch) const {
  return make_sequence(corpus_->conversation(split, id, epoch), corpus_->format(), config().chat.max_tokens,
                       learn_named(config().chat.learn));
}

ChatBatch Chat::make_batch(const LoadRequest& request) const {
  std::vector<std::vector<int64_t>> tokens, targets;
  for (const uint64_t id : request.ids) {
    Sequence one = sequence(request.split, id, request.epoch);
    tokens.push_back(std::move(one.tokens));
    targets.push_back(std::move(one.targets));
  }
  ChatBatch batch{.packed = transformer::pack(tokens, targets),
                  .ids = {request.ids.begin(), request.ids.end()},
                  .split = request.split};
  if (request.split == Split::kTrain) batch.sources = corpus_->training().sources_of(request.ids);
  batch.packed.full_length = config().chat.max_tokens;
  require_ids(batch.packed.tokens, corpus_->tokenizer().vocab_size(), "token");
  require_ids(batch.packed.targets, corpus_->tokenizer().vocab_size(), "target");
  return batch;
}

BatchInfo Chat::batch_info(const ChatBatch& batch) const {
  const auto rows = static_cast<uint64_t>(batch.packed.sequences.rows());
  return {.weight = static_cast<double>(batch.packed.target_rows.size()),
          .samples = batch.ids.size(),
          .tokens = rows,
          .positions = rows};
}

hugging_face::OwnTokens Chat::own_tokens() const {
  const tokenizer::Tokenizer& tokenizer = corpus_->tokenizer();
  return {tokenizer.bos().value_or(tokenizer.eot()), corpus_->format().end_token(),
          [&tokenizer](int64_t id) { return id >= 0 && id < tokenizer.vocab_size(); }};
}

void Chat::find_ends() { ends_ = hugging_face::end_tokens(corpus_->tokenizer().files(), own_tokens()); }

void Chat::import_model(const std::filesystem::path& folder) {
  if (config().tokenizer.path.empty() && !kept_tokenizer_)
    config_error("tokenizer.path",
                 concat("must be given with weights of ", folder.string(),
                        ", which know no tokens of a tokenizer that is trained here: name the folder's own"));
  const language::Config theirs = language::import_model(folder.string(), model());
  language::start_from_adapter(model(), config().language.lora);
  const int64_t size = corpus_->tokenizer().vocab_size();
  for (const std::string& note :
       {language::note_of_vocabulary(folder.string(), size, size - theirs.vocab_size),
        hugging_face::note_of_weights(folder.string())})
    if (!note.empty()) context().info(note);
  if (const auto warning = language::warning_of_new_tokens(model(), size - theirs.vocab_size);
      !warning.empty())
    context().warn(warning);
  hugging_face::OwnTokens own = own_tokens();
  if (!tokenizer::is_of_folder(corpus_->tokenizer().files(), folder))
    own.is_own = [&](int64_t id) { return corpus_->tokenizer().is_special(id); };
  tokenizer::Files files =
      files::with_data_errors([&] { return tokenizer::files_of(folder, tokenizer::kLanguageModelFiles); });
  files[tokenizer::kWeightsText] = language::kept_weights(folder.string(), model());
  for (const std::string& line : hugging_face::unknown_tokens(files, own, folder.string()))
    context().warn(line);
  corpus_->carry(hugging_face::without_unknown(files, own, folder.string()));
  find_ends();
}

void Chat::export_model(const std::filesystem::path& folder) {
  const tokenizer::Tokenizer& tokenizer = corpus_->tokenizer();
  language::export_model(folder, model(), config().language.lora, tokenizer.files(), own_tokens(),
                         [this](const std::string& note) { context().info(note); });
  tokenizer.save(folder.string());
}

}  // namespace pipeline::tasks::chat

PIPELINE_TASK(
    pipeline::tasks::chat::Chat, "chat", "1.0.0",
    "A language model learns to answer in conversations. Weight decay: matrices and embeddings; not "
    "biases and norms")
