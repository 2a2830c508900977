#include "plugins/tasks/masked/task.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>

#include <pipeline/numbers.hpp>

#include "files/data_errors.hpp"
#include "hugging_face/weights.hpp"
#include "plugins/data/files/texts.hpp"
#include "plugins/tasks/common/writing.hpp"

namespace pipeline::tasks::masked {

namespace fs = std::filesystem;

void MaskedConfig::read_model(const MaskedConfig& config, const fs::path& init_from,
                              const ModelOptions& say) {
  tokenizer::check_tokenizer(say, config.tokenizer.path);
  if (init_from.empty()) return;
  const encoder::EncoderFolder theirs = encoder::read_encoder_folder(init_from);
  config.model.tell(say, theirs, init_from,
                    encoder::MaskedEncoder::adapted(encoder::text_encoder(theirs.kind), theirs.config));
  const int64_t most = encoder::text_encoder(theirs.kind).most_tokens(theirs.config);
  if (!say.is_set("sequence.max_tokens") && config.sequence.max_tokens > most)
    say("sequence.max_tokens", most, init_from / "config.json");
  tokenizer::follow_tokenizer(say, init_from, say.is_set("tokenizer.path"));
  hugging_face::check_weights(init_from.string());
}

// A sample is a piece of a document, its tokens without what begins and ends it.
void Masked::open_corpus() {
  corpus_.emplace(
      config().data, context(), tokenizer(),
      [this](const sources::SourceFiles& files, Split /*split*/, const files::SplitPart& part) {
        tokenizer().require_end_of_text("which each piece of a document ends with");
        const records::PairSource source = config().data.source_of(files, part);
        const auto room = static_cast<size_t>(config().sequence.max_tokens - (begin() ? 2 : 1));
        const auto special = run().purpose == PL_PURPOSE_PREDICT ? tokenizer::SpecialTokens::kRecognize
                                                                 : tokenizer::SpecialTokens::kAsText;
        return text::Reading{
            .options = concat("pieces/1 ", room, " ", static_cast<int>(special), "\n", source.options()),
            .read = [this, source, room, special](const stores::TokenSink& add, const files::Hooks& hooks) {
              const auto size = static_cast<uint32_t>(tokenizer()->vocab_size());
              using Pieces = std::vector<std::string>;
              uint64_t empty = 0;
              stores::TokenReport report = source.read_on_threads<Pieces>(
                  hooks,
                  [&](const records::Pair& text) {
                    const std::vector<int32_t> tokens = tokenizer()->encode(text.first, special);
                    Pieces pieces;
                    for (size_t at = 0; at < tokens.size(); at += room) {
                      const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                 to = from + static_cast<std::ptrdiff_t>(std::min(room, tokens.size() - at));
                      pieces.push_back(stores::pack_tokens({{}, {from, to}}, concat(text.id, "@", at), size));
                    }
                    return pieces;
                  },
                  [&](Pieces&& pieces) {
                    empty += pieces.empty() ? 1 : 0;
                    for (std::string& piece : pieces) add(std::move(piece));
                  });
              report.used -= empty;
              if (empty > 0)
                report.notes += concat(files::counted(empty, "text"), " of ", source.files.name(),
                                       " left out, without a token\n");
              return report;
            }};
      },
      errors());
  files::with_data_errors([&] {
    tokenizer().open([&] {
      return corpus_->training_texts(
          [this](const auto& files, const auto& part) { return config().data.source_of(files, part); },
          config().tokenizer.vocab_size);
    });
    corpus_->prepare();
  });
}

void Masked::open_data() {
  if (!corpus_) open_corpus();  // another process has prepared
  tokenizer().set_end(tokenizer()->eot());
  if (run().purpose != PL_PURPOSE_TRAIN) return;
  corpus_->log_held_out("pieces (of whole documents)");
  corpus_->log_sizes("pieces");
  context().info("mask       ", tokenizer()->decode(std::vector{mask_token()}), " stands for hidden tokens");
}

// Without a token for it, as where the tokenizer was trained here, it is the one that ends a text, which no
// text has within.
int32_t Masked::mask_token() const {
  for (const char* name : {"[MASK]", "<mask>"})
    if (const auto token = tokenizer()->special_token(name)) return *token;
  return tokenizer()->eot();
}

std::shared_ptr<encoder::MaskedEncoder> Masked::build_model() {
  common::require_padding(config().model.padding(), tokenizer(), errors(), "model.kind");
  return std::make_shared<encoder::MaskedEncoder>(
      config().model.kind, config().model.of(tokenizer()->vocab_size()), config().model.lora);
}

std::vector<int64_t> Masked::hide(std::vector<int64_t>& tokens, uint64_t seed) const {
  const MaskOptions& mask = config().mask;
  const auto vocabulary = static_cast<uint64_t>(tokenizer()->vocab_size());
  std::vector<int64_t> were(tokens.size(), -1);
  std::vector<size_t> places(tokens.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::mt19937_64 generator(seed);
  const auto count =
      static_cast<size_t>(std::max(std::round(mask.ratio * static_cast<double>(tokens.size())), 1.0));
  for (size_t i = 0; i < std::min(count, places.size()); ++i) {
    std::swap(places[i], places[i + generator() % (places.size() - i)]);
    int64_t& token = tokens[places[i]];
    were[places[i]] = token;
    const double share = std::ldexp(static_cast<double>(generator() >> 11), -53);
    if (share < mask.random)
      token = static_cast<int64_t>(generator() % vocabulary);
    else if (share >= mask.random + mask.shown)
      token = mask_token();
  }
  return were;
}

// In predictions what is asked for is where the text has the mask.
MaskedBatch Masked::make_batch(const LoadRequest& request) const {
  std::vector<std::vector<int64_t>> all, targets;
  for (const uint64_t id : request.ids) {
    std::vector<int64_t> tokens =
        corpus_->sample(request.split, id, request.epoch).parts.at(1).all<int64_t>();
    std::vector<int64_t> target(tokens.size(), -1);
    if (request.purpose == Purpose::kPredict)
      std::ranges::transform(tokens, target.begin(),
                             [mask = mask_token()](int64_t token) { return token == mask ? token : -1; });
    else
      target = hide(tokens, context().seed("mask", request.epoch, id, static_cast<uint64_t>(request.split)));
    if (const auto first = begin()) {
      tokens.insert(tokens.begin(), *first);
      target.insert(target.begin(), -1);
    }
    tokens.push_back(tokenizer()->eot());
    target.push_back(-1);
    all.push_back(std::move(tokens));
    targets.push_back(std::move(target));
  }
  MaskedBatch batch;
  batch.packed = transformer::pack(all, targets);
  batch.packed.full_length = config().sequence.max_tokens;
  batch.ids.assign(request.ids.begin(), request.ids.end());
  if (request.split == Split::kTrain) batch.sources = corpus_->training().sources_of(request.ids);
  return batch;
}

LossSum Masked::loss(const MaskedBatch& batch) {
  language::LossDetails details;
  const at::Tensor& targets = batch.packed.targets;
  if (!batch.sources.empty())
    details.row_losses = at::empty({targets.size(0)}, targets.options().dtype(at::kFloat));
  LossSum sum = model().loss(batch.packed, pass(), details.row_losses);
  common::add_loss_metrics(context(), batch.packed, details, batch.sources,
                           std::span(batch.packed.sequences.starts).subspan(1), corpus_->training().names());
  return sum;
}

std::vector<Metric> Masked::metrics() {
  std::vector<Metric> metrics = common::loss_metrics();
  metrics.push_back({.name = "accuracy",
                     .help = "share of hidden tokens that are the likeliest, of all tokens",
                     .better = PL_BETTER_HIGHER});
  return metrics;
}

void Masked::evaluate(const MaskedBatch& batch, EvaluationSink& sink) {
  const auto count = static_cast<double>(batch.packed.target_rows.size());
  const at::Tensor& targets = batch.packed.targets;
  const at::Tensor logits = model().logits(batch.packed, pass());
  const at::Tensor losses = at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1));
  sink.value("loss", -losses.sum(at::kDouble).item<double>(), count);
  sink.value("accuracy", (logits.argmax(1) == targets).sum().item<double>(), count);
}

void Masked::predict(const MaskedBatch& batch, const PredictionSink& sink) {
  const std::vector<int64_t>& rows = batch.packed.target_rows;
  const auto [share, best] = at::log_softmax(model().logits(batch.packed, pass()), 1).exp().cpu().max(1);
  require_numbers(std::span(share.const_data_ptr<float>(), rows.size()), "a text", "prediction");
  const auto text = [&](const std::vector<int32_t>& tokens) { return tokenizer()->decode(tokens); };
  const at::Tensor all = batch.packed.tokens.cpu();
  size_t next = 0;
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const auto sample = static_cast<int64_t>(i);
    std::vector<int32_t> tokens, filled;
    std::string shares;
    for (int64_t row = batch.packed.sequences.start(sample) + (begin() ? 1 : 0);
         row + 1 < batch.packed.sequences.start(sample + 1); ++row) {
      filled.push_back(tokens.emplace_back(static_cast<int32_t>(all[row].item<int64_t>())));
      if (next == rows.size() || rows[next] != row) continue;
      filled.back() = static_cast<int32_t>(best[static_cast<int64_t>(next)].item<int64_t>());
      shares += concat(shares.empty() ? "" : " ", share[static_cast<int64_t>(next)].item<float>());
      ++next;
    }
    sink.row(batch.ids[i], {text(tokens), text(filled), shares});
  }
}

void Masked::import_model(const fs::path& folder) {
  const encoder::EncoderFolder theirs = encoder::read_encoder_folder(folder);
  const bool has_head = model().import(folder, theirs);
  tokenizer().require_path(folder);
  if (!has_head) context().info("weights    of ", folder.string(), ": the head that tells tokens is new");
  common::take_encoder_texts(folder, context(), theirs.config.vocab_size, model().kept_weights(folder),
                             tokenizer());
}

void Masked::export_model(const fs::path& folder) {
  for (const std::string& note : model().write(folder, tokenizer()->files())) context().info(note);
  tokenizer()->save(folder.string());
  if (!config().model.lora.exports_adapter()) common::frame_exported_texts(folder, tokenizer());
}

}  // namespace pipeline::tasks::masked

PIPELINE_TASK(
    pipeline::tasks::masked::Masked, "masked", "1.0.0",
    "An encoder learns tokens that are hidden, as BERT does. Weight decay: matrices and embeddings; not "
    "biases and norms")
