// A small language model of a text file, from what is installed alone: the tokenizer, a cache of its tokens,
// transformer layers, Hugging Face folders and generation.
#include <pipeline/torch/task.hpp>

#include <pipeline/tasks/generation/generate.hpp>
#include <pipeline/tasks/hugging_face/config_file.hpp>
#include <pipeline/tasks/hugging_face/weights.hpp>
#include <pipeline/tasks/stores/record_store.hpp>
#include <pipeline/tasks/tokenizer/bpe_trainer.hpp>
#include <pipeline/tasks/transformer/cross_entropy_head.hpp>
#include <pipeline/tasks/transformer/embedding.hpp>
#include <pipeline/tasks/transformer/layer.hpp>
#include <pipeline/tasks/transformer/packed_batch.hpp>

#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace pipeline;
constexpr int64_t kWidth = 16, kHeads = 2, kLayers = 2, kLength = 24;

struct Config {
  std::filesystem::path text;
  void describe(Options& o) { o("text", text, "the file to learn").required(); }
};

struct Batch {
  transformer::PackedBatch packed;
  std::vector<uint64_t> ids;
  void tensors(auto&& visit) { packed.tensors(visit); }
};

class Model : public generation::DecoderModel {
 public:
  static constexpr bool kOwnPrecision = true;

  explicit Model(int64_t vocabulary) {
    words_ = parameters_.add({.name = "words", .shape = {vocabulary, kWidth}}, normal(0.02));
    positions_ = parameters_.add({.name = "positions", .shape = {kLength, kWidth}}, normal(0.02));
    for (uint32_t k = 0; k < kLayers; ++k)
      layers_.push_back(transformer::add_layer(parameters_, "layers." + std::to_string(k), k + 1,
                                               {kWidth, 4 * kWidth, 1e-5, 0.02, 0.01},
                                               {"norm", "qkv", "out", "mlp_norm", "up", "down"}));
    norm_ = transformer::add_norm(parameters_, "norm", kWidth, 0, 1e-5);
  }

  ParameterRegistry& parameters() { return parameters_; }

  LossSum loss(const transformer::PackedBatch& batch, const ForwardPass& pass) const {
    const Tensors start =
        pass.run_once(0, [&](const Tensors&) { return Tensors{embed(batch.tokens, batch.positions)}; }, {});
    const transformer::LayerPass shared{
        .layout = {.queries = batch.sequences, .keys = batch.sequences, .heads = kHeads},
        .dropout = {0.1, 0.1}};
    const at::Tensor x =
        transformer::run_layers(layers_, start[0], shared, pass, parameters_, batch.target_rows);
    const Tensors out = pass.run_once(0,
                                      [&](const Tensors& in) {
                                        const LossSum loss = transformer::cross_entropy_head(
                                            in[0], batch.targets, norm_, words_,
                                            {.scale = pass.scale, .compute = pass.compute});
                                        return Tensors{loss.sum, loss.scaled};
                                      },
                                      {x});
    return {out[0], out[1]};
  }

  int64_t max_tokens() const override { return kLength; }
  int64_t layer_count() const override { return kLayers; }
  int64_t width() const override { return kWidth; }
  int64_t heads() const override { return kHeads; }
  at::Device device() const override { return words_.device(); }
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions) const override {
    return transformer::embed(tokens, positions, words_, positions_, {});
  }
  at::Tensor layer(int64_t index, const at::Tensor& x, const at::Tensor&, at::ScalarType compute,
                   const Attention& attend) const override {
    const transformer::Layer& layer = layers_.at(static_cast<size_t>(index));
    const at::Tensor qkv = transformer::norm_linear(x, layer.attention_norm, layer.qkv, compute);
    return transformer::after_attention(layer, 0, attend(qkv), x, {}, {.compute = compute});
  }
  at::Tensor logits_of(const at::Tensor& x, at::ScalarType compute) const override {
    return transformer::head_logits(x, norm_, words_, compute);
  }

 private:
  ParameterRegistry parameters_;
  at::Tensor words_, positions_;
  std::vector<transformer::Layer> layers_;
  transformer::Norm norm_;
};

class Outside : public TorchTask<Config, Model, Batch> {
 public:
  using TorchTask::TorchTask;
  static constexpr bool kHasUnits = true;

  void open_data() override {
    std::ifstream file(config().text);
    if (!file) config_error("text", "cannot be read");
    std::stringstream text;
    text << file.rdbuf();
    tokenizer::BpeTrainer trainer;
    trainer.add(text.str());
    tokenizer_.emplace(trainer.train({.vocab_size = 300}));
    tokens_ = cached_tokens(text.str());
  }
  std::shared_ptr<Model> build_model() override { return std::make_shared<Model>(tokenizer_->vocab_size()); }
  uint64_t sample_count(Split) const override { return tokens_.size() / kLength; }
  Batch make_batch(const LoadRequest& request) const override {
    std::vector<std::vector<int64_t>> tokens, targets;
    for (const uint64_t id : request.ids) {
      const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(id) * kLength;
      tokens.emplace_back(first, first + kLength);
      targets.emplace_back(first + 1, first + kLength);
      targets.back().push_back(-1);
    }
    return {transformer::pack(tokens, targets), {request.ids.begin(), request.ids.end()}};
  }
  BatchInfo batch_info(const Batch& batch) const override {
    return {.weight = static_cast<double>(batch.packed.target_rows.size()), .samples = batch.ids.size()};
  }
  LossSum loss(const Batch& batch) override { return model().loss(batch.packed, pass()); }

  void import_model(const std::filesystem::path& folder) override {
    hugging_face::ConfigFile(folder / "config.json").type({"outside"});
    hugging_face::import_weights(folder, model().parameters());
  }
  void export_model(const std::filesystem::path& folder) override {
    hugging_face::export_weights(folder, model().parameters());
    hugging_face::write_text(folder / "config.json", "{\"model_type\": \"outside\"}\n");
    tokenizer_->save(folder);
  }

  std::vector<std::string> prediction_columns() override { return {"goes_on_with"}; }
  std::string sample_name(Split, uint64_t id) const override { return std::to_string(id); }
  void predict(const Batch& batch, const PredictionSink& sink) override {
    for (const uint64_t id : batch.ids) {
      const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(id) * kLength;
      const auto written =
          generation::generate(model(), {{.id = id, .tokens = {first, first + 4}}},
                               {.max_new_tokens = 8, .eos_token_ids = {tokenizer_->eot()}, .beams = 2});
      sink.row(id, {tokenizer_->decode(std::vector<int32_t>(written[0].begin(), written[0].end()))});
    }
  }

 private:
  std::vector<int32_t> cached_tokens(const std::string& text) const {
    constexpr stores::Kind kKind{"OUTTOKEN", 1, "the text is tokenized again"};
    const std::filesystem::path folder(view(context().run().cache_dir));
    std::filesystem::create_directories(folder);
    const std::string path = folder / "outside.tokens";
    const files::Hash128 key = files::hash128(text);
    bool damaged = false;
    const auto held = stores::load(path, kKind, key, damaged);
    if (held) {
      std::vector<int32_t> tokens(held->size() / sizeof(int32_t));
      held->copy(reinterpret_cast<char*>(tokens.data()), held->size());
      context().info(tokens.size(), " tokens from ", path);
      return tokens;
    }
    const std::vector<int32_t> tokens = tokenizer_->encode(text);
    stores::save(path, kKind, key, files::bytes_of(tokens));
    return tokens;
  }

  std::optional<tokenizer::ByteLevelBpe> tokenizer_;
  std::vector<int32_t> tokens_;
};

}  // namespace

PIPELINE_TASK(Outside, "outside_model", "1.0.0", "A language model made of installed parts")
