#include "plugins/tasks/embedding/task.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "files/data_errors.hpp"
#include "plugins/data/files/hash128.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::tasks::embedding {

namespace fs = std::filesystem;
using sentence_encoder::kTextKey;

records::PairSource Embedding::source_of(const sources::SourceFiles& files, Split split,
                                         const files::SplitPart& part) const {
  const DataOptions& data = config().data;
  const bool is_ranking = config().is_ranking(), is_required = split != Split::kTest;
  return {.files = files,
          .columns = {.first = config().query_column(),
                      .second = config().positive_column(),
                      .id = data.id_column.empty() ? "id" : data.id_column,
                      .extra = is_ranking ? data.negative_column : data.score_column,
                      .second_required = is_required,
                      .extra_required = !is_ranking && is_required,
                      .second_takes = is_ranking ? records::Column::kWords : records::Column::kText,
                      .extra_takes = is_ranking ? records::Column::kWords : records::Column::kValues,
                      .id_required = !data.id_column.empty()},
          .max_record_bytes = static_cast<uint64_t>(data.max_record_bytes),
          .quotes = records::quotes_named(data.quotes),
          .part = part};
}

Encoder Embedding::encoder(bool is_collection) const {
  const TextOptions& text = config().text;
  const bool is_passage =
      !is_collection && run().purpose == PL_PURPOSE_PREDICT && config().predict.side == "passage";
  return {.encode = [this](std::string_view one) { return tokenizer()->encode(one); },
          .query_prompt = is_passage ? text.passage_prompt : text.query_prompt,
          .passage_prompt = text.passage_prompt,
          .vocabulary_size = static_cast<uint32_t>(tokenizer()->vocab_size())};
}

text::Reading Embedding::reading_of(const sources::SourceFiles& files, Split split,
                                    const files::SplitPart& part) const {
  const bool is_judged = split != Split::kTrain && is_collection(files.named);
  if (is_judged && !config().is_ranking())
    config_error(split == Split::kVal ? "data.val" : "data.test",
                 "is a collection of queries and documents: task.objective = \"ranking\" judges these");
  const Encoder how = encoder(is_judged);
  const std::string prompts = concat("embedding/2\n", how.query_prompt.size(), how.query_prompt,
                                     how.passage_prompt.size(), how.passage_prompt);
  if (is_judged) {
    const auto max_record_bytes = static_cast<uint64_t>(config().data.max_record_bytes);
    const Collection collection(files.named, split == Split::kVal ? "dev" : "test");
    return {.options = concat(prompts, "\n", collection.split, collection.state),
            .read = [=](const stores::TokenSink& add, const files::Hooks& hooks) {
              return read_collection(collection, files, max_record_bytes, how, hooks, add);
            }};
  }
  const records::PairSource source = source_of(files, split, part);
  const bool is_scored = !config().is_ranking();
  return {.options = concat(prompts, "\n", is_scored, source.options()),
          .read = [=](const stores::TokenSink& add, const files::Hooks& hooks) {
            return read_pairs(source, is_scored, how, hooks, add);
          }};
}

void Embedding::open_corpus() {
  corpus_.emplace(
      config().data, context(), tokenizer(),
      [this](const sources::SourceFiles& files, Split split, const files::SplitPart& part) {
        return reading_of(files, split, part);
      },
      errors());
  files::with_data_errors([&] {
    tokenizer().open([&] {
      return corpus_->training_texts(
          [this](const auto& files, const auto& part) { return source_of(files, Split::kTrain, part); },
          config().tokenizer.vocab_size);
    });
    corpus_->prepare();
  });
}

void Embedding::open_data() {
  if (!corpus_) open_corpus();  // another process has prepared
  tokenizer().require_end_of_text("which ends each text");
  tokenizer().set_end(tokenizer()->eot());
  if (run().purpose == PL_PURPOSE_EVALUATE)
    corpus_->leave_out_unanswered(config().is_ranking() ? "have no second text" : "have no score");
  if (run().purpose != PL_PURPOSE_TRAIN) return;
  corpus_->log_held_out("usable records");
  corpus_->log_sizes("samples");
  warn_of_cut_texts();
}

void Embedding::warn_of_cut_texts() const {
  uint64_t cut = 0, all = 0;
  const int64_t most = config().text.max_tokens - (tokenizer()->adds_bos() ? 1 : 0) - (end_of_text() ? 1 : 0);
  files::with_data_errors([&] {
    for (const stores::TokenStore& store : corpus_->training().stores())
      for (uint64_t i = 0; i < store.size(); ++i) {
        context().throw_if_cancelled();
        const TokenSample sample = store[i];
        const Facts facts = facts_of(sample);
        std::vector<uint32_t> sizes{sample.parts.front().size()};
        for (const auto* list : {&facts.positives, &facts.negatives})
          sizes.insert(sizes.end(), list->begin(), list->end());
        all += sizes.size();
        cut +=
            static_cast<uint64_t>(std::ranges::count_if(sizes, [&](uint32_t size) { return size > most; }));
      }
  });
  if (cut > 0)
    context().warn(cut, " of ", all,
                   " training texts are longer than task.text.max_tokens = ", config().text.max_tokens,
                   " and are cut");
}

std::shared_ptr<sentence_encoder::SentenceEncoder> Embedding::build_model() {
  if (!config().is_language())
    common::require_padding(config().model.padding(), tokenizer(), errors(), "model.kind");
  return std::make_shared<sentence_encoder::SentenceEncoder>(
      config().encoder({tokenizer()->vocab_size(), tokenizer().own_tokens().begin, tokenizer()->eot()}),
      config().is_language() ? config().language.lora : config().model.lora);
}

sentence_encoder::RankingLoss& Embedding::ranking() const {
  if (!ranking_) ranking_.emplace(width(), config().negatives(), config().loss_options());
  return *ranking_;
}

// Around an encoder's text are those that its layers expect, around a language model's what its tokenizer
// puts there.
std::optional<int64_t> Embedding::end_of_text() const {
  if (config().is_language()) return tokenizer()->added_end();
  return tokenizer()->eot();
}

// Special tokens around a text, which is cut where it is too long.
std::vector<int64_t> Embedding::framed(std::vector<int64_t> tokens) const {
  const auto begin = tokenizer()->adds_bos() ? tokenizer()->bos() : std::nullopt;
  const auto end = end_of_text();
  const int64_t room = config().text.max_tokens - (begin ? 1 : 0) - (end ? 1 : 0);
  if (static_cast<int64_t>(tokens.size()) > room) tokens.resize(static_cast<size_t>(room));
  if (begin) tokens.insert(tokens.begin(), *begin);
  if (end) tokens.push_back(*end);
  if (tokens.empty()) tokens.push_back(tokenizer()->eot());  // of an empty text there is a vector, too
  return tokens;
}

// The most that a draw of the sample costs.
double Embedding::sample_cost(Split split, uint64_t id) const {
  const TokenSample sample = corpus_->sample(split, id);
  const auto most = static_cast<uint32_t>(config().text.max_tokens);
  double cost = std::min(sample.parts.front().size(), most);
  Facts facts = facts_of(sample);
  const auto add_longest = [&](std::vector<uint32_t>& sizes, size_t count) {
    std::ranges::sort(sizes, std::greater());
    for (size_t i = 0; i < std::min(count, sizes.size()); ++i) cost += std::min(sizes[i], most);
  };
  add_longest(facts.positives, 1);
  add_longest(facts.negatives, static_cast<size_t>(config().negatives()));
  return cost;
}

EmbeddingBatch Embedding::make_batch(const LoadRequest& request) const {
  EmbeddingBatch batch;
  std::vector<std::vector<int64_t>> all, none;
  const auto add = [&](std::vector<int64_t> tokens, std::optional<Hash128> key) {
    all.push_back(framed(std::move(tokens)));
    none.emplace_back(all.back().size(), -1);
    batch.keys.push_back(key ? *key : files::hash128(files::bytes_of(all.back())));
  };
  for (const uint64_t id : request.ids) {
    const TokenSample sample = corpus_->sample(request.split, id, request.epoch);
    const Facts facts = facts_of(sample);
    const auto key = [&](size_t text) {
      return text < facts.keys.size() ? std::optional(facts.keys[text]) : std::nullopt;
    };
    add(tokens_of(sample, facts, 0), key(0));
    size_t count = 1;
    if (request.purpose != Purpose::kPredict && !sample.has_target())
      fail_with(PL_ERROR_CONFIG, "the test data have no ", config().is_ranking() ? "second texts" : "scores",
                ": nothing can be judged by them");
    if (request.purpose != Purpose::kPredict && !facts.positives.empty()) {
      // Training draws; whoever judges takes the first.
      std::vector<size_t> positives(facts.positives.size()), negatives(facts.negatives.size());
      std::iota(positives.begin(), positives.end(), size_t{1});
      std::iota(negatives.begin(), negatives.end(), 1 + positives.size());
      if (request.split == Split::kTrain) {
        std::mt19937_64 generator(context().seed("others", request.epoch, id));
        for (auto* list : {&positives, &negatives})
          for (size_t i = list->size(); i > 1; --i) std::swap((*list)[i - 1], (*list)[generator() % i]);
      }
      negatives.resize(std::min(negatives.size(), static_cast<size_t>(config().negatives())));
      add(tokens_of(sample, facts, positives.front()), key(1));
      for (const size_t text : negatives) add(tokens_of(sample, facts, text), std::nullopt);
      count += 1 + negatives.size();
    }
    batch.counts.push_back(count);
    if (!config().is_ranking()) batch.scores.push_back(facts.score.value_or(0));
  }
  batch.texts = transformer::pack(all, none);
  batch.texts.full_length = config().text.max_tokens;
  require_ids(batch.texts.tokens, tokenizer()->vocab_size(), "token");
  batch.columns = at::empty({static_cast<int64_t>(batch.keys.size()), kTextKey}, at::kFloat);
  for (size_t i = 0; i < batch.keys.size(); ++i)
    sentence_encoder::write_key(batch.keys[i],
                                batch.columns.data_ptr<float>() + i * static_cast<size_t>(kTextKey));
  batch.ids.assign(request.ids.begin(), request.ids.end());
  batch.split = request.split;
  return batch;
}

at::Tensor Embedding::rows_of(const EmbeddingBatch& batch, const at::Tensor& vectors) const {
  const auto samples = static_cast<int64_t>(batch.ids.size());
  if (!config().is_ranking()) {
    const at::Tensor scores =
        transformer::to_device(at::tensor(batch.scores, at::kFloat).unsqueeze(1), vectors.device());
    return at::cat({vectors.view({samples, -1}), scores}, 1);
  }
  const at::Tensor texts = at::cat({vectors, batch.columns}, 1);
  const auto most = static_cast<size_t>(2 + config().negatives());
  if (std::ranges::all_of(batch.counts, [&](size_t count) { return count == most; }))
    return texts.view({samples, -1});
  // A row of zeros stands for a text that is not there.
  const int64_t none = texts.size(0);
  std::vector<int64_t> places;
  int64_t next = 0;
  for (const size_t count : batch.counts)
    for (size_t i = 0; i < most; ++i) places.push_back(i < count ? next++ : none);
  return at::cat({texts, at::zeros({1, texts.size(1)}, texts.options())})
      .index_select(0, transformer::to_device(places, texts.device()))
      .view({samples, -1});
}

at::Tensor Embedding::outputs(const EmbeddingBatch& batch) {
  return rows_of(batch, model().vectors(batch.texts, pass()));
}

void Embedding::import_model(const fs::path& path) {
  const sentence_encoder::Folder folder = sentence_encoder::import_model(path, model(), config().adapter());
  auto* const language = model().language();
  tokenizer().require_path(path);
  if (folder.is_encoder_alone)
    context().info("weights    of ", path.string(), language ? ", a language model" : ", an encoder",
                   ": vectors are ", config().pooling(), "-pooled",
                   config().model.normalize ? " and of length 1" : "",
                   config().model.projection_dim > 0 ? ", and the layer behind is new" : "");
  if (language)
    common::import_language_model(folder.encoder, context(), config().language.lora, *language, tokenizer());
  else
    common::take_encoder_texts(folder.encoder, context(), folder.config.encoder.vocab_size,
                               sentence_encoder::kept_weights(folder, model()), tokenizer());
  tokenizer().replace(tokenizer()->with(
      files::with_data_errors([&] { return tokenizer::files_of(path, tokenizer::kSentenceModelFiles); })));
}

void Embedding::export_model(const fs::path& folder) {
  const TextOptions& text = config().text;
  for (const std::string& note : sentence_encoder::export_model(
           folder, model(), {text.max_tokens, text.query_prompt, text.passage_prompt}, tokenizer()->files()))
    context().info(note);
  if (const auto* const language = model().language()) {
    const adapters::LoraOptions& lora = config().language.lora;
    common::export_language_model(folder, context(), lora, *language, tokenizer());
    if (!lora.exports_adapter()) common::choose_padding(folder, tokenizer(), std::nullopt, context());
    return;
  }
  tokenizer()->save(folder.string());
  if (!config().model.lora.exports_adapter()) common::frame_exported_texts(folder, tokenizer());
}

}  // namespace pipeline::tasks::embedding

PIPELINE_TASK(
    pipeline::tasks::embedding::Embedding, "embedding", "1.0.0",
    "Texts become vectors: what belongs together is near, over the global batch. Weight decay: matrices "
    "and embeddings; not biases and norms")
