#include "plugins/tasks/chat/task.hpp"

namespace pipeline::tasks::chat {

void Chat::open_corpus() {
  corpus_.emplace(config(), context(), tokenizer(),
                  [this](const char* key, const std::string& problem) { config_error(key, problem); });
}

void Chat::open_data() {
  if (!corpus_) open_corpus();  // another process has prepared
  tokenizer().set_end(corpus_->format().end_token());
  if (run().purpose != PL_PURPOSE_TRAIN) return;
  context().info("data       ", sample_count(Split::kTrain), " training, ", sample_count(Split::kVal),
                 " validation, ", sample_count(Split::kTest), " test conversations; ",
                 tokenizer().size_text());
  for (const std::string& line : corpus_->training().lines()) context().info(line);
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
  require_ids(batch.packed.tokens, tokenizer()->vocab_size(), "token");
  require_ids(batch.packed.targets, tokenizer()->vocab_size(), "target");
  return batch;
}

}  // namespace pipeline::tasks::chat

PIPELINE_TASK(
    pipeline::tasks::chat::Chat, "chat", "1.0.0",
    "A language model learns to answer in conversations. Weight decay: matrices and embeddings; not "
    "biases and norms")
