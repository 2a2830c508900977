#include "plugins/models/encoder/text_tower.hpp"

#include "hugging_face/config_file.hpp"
#include "transformer/embedding.hpp"

namespace pipeline::encoder {

using transformer::Gelu;

Gelu gelu_named(const std::string& name) {
  return name == "quick_gelu" ? Gelu::kQuick : name == "gelu" ? Gelu::kExact : Gelu::kTanh;
}

void TextConfig::check() const {
  using namespace hugging_face;
  constexpr int64_t kMostWidth = 1 << 20, kMostLayers = 1 << 12, kMostTokens = 1 << 24;
  check_range("vocab_size", vocab_size, 1, kMostTokens);
  check_range("max_position_embeddings", max_position_embeddings, 2, kMostWidth);
  check_range("hidden_size", hidden_size, 1, kMostWidth);
  check_range("num_hidden_layers", num_hidden_layers, 1, kMostLayers);
  check_range("num_attention_heads", num_attention_heads, 1, kMostWidth);
  check_range("intermediate_size", intermediate_size, 1, kMostWidth);
  check_positive("layer_norm_eps", layer_norm_eps);
  check_positive("initializer_range", initializer_range);
  if (hidden_size % num_attention_heads != 0)
    fail_with(PL_ERROR_CONFIG, "num_attention_heads = ", num_attention_heads, ": must divide hidden_size (",
              hidden_size, ")");
  if (hidden_act != "quick_gelu" && hidden_act != "gelu" && hidden_act != "gelu_pytorch_tanh")
    fail_with(PL_ERROR_CONFIG, "hidden_act = \"", hidden_act,
              "\": must be \"quick_gelu\", \"gelu\" or \"gelu_pytorch_tanh\"");
}

TextTower::TextTower(const TextConfig& config, bool is_causal, language::ParameterPlace place)
    : config_(config), is_causal_(is_causal), place_(std::move(place)) {
  config_.check();
  ParameterRegistry& registry = *place_.registry;
  const int64_t width = config_.hidden_size;
  const double deviation = config_.initializer_range;
  const uint32_t first = place_.first_unit;
  const auto embedding = [&](const char* name, int64_t rows) {
    return registry.add({.name = place_.prefix + name, .shape = {rows, width}, .unit = first},
                        normal(deviation));
  };
  tokens_ = embedding("embeddings.token_embedding.weight", config_.vocab_size);
  positions_ = embedding("embeddings.position_embedding.weight", config_.max_position_embeddings);
  const transformer::LayerShape shape{.width = width,
                                      .inner = config_.intermediate_size,
                                      .epsilon = config_.layer_norm_eps,
                                      .deviation = deviation,
                                      .into_residual = deviation};
  for (int64_t i = 0; i < config_.num_hidden_layers; ++i)
    layers_.push_back(transformer::add_layer(
        registry, place_.prefix + "encoder.layers." + std::to_string(i), first + 1 + static_cast<uint32_t>(i),
        shape, {"layer_norm1", "self_attn.qkv", "self_attn.out_proj", "layer_norm2", "mlp.fc1", "mlp.fc2"}));
}

at::Tensor TextTower::last_rows(const transformer::PackedBatch& texts, const ForwardPass& pass) const {
  std::vector<int64_t> wanted;
  for (int64_t text = 0; text < texts.sequences.sequences(); ++text)
    wanted.push_back(texts.sequences.start(text + 1) - 1);
  transformer::LayerPass layers;
  layers.layout = {.queries = texts.sequences,
                   .keys = texts.sequences,
                   .heads = config_.num_attention_heads,
                   .causal = is_causal_};
  layers.first_unit = place_.first_unit + 1;
  layers.gelu = gelu_named(config_.hidden_act);
  const at::Tensor x = pass.run_once(
      place_.first_unit,
      [&](const Tensors&) {
        return Tensors{transformer::embed(texts.tokens, texts.positions, tokens_, positions_, {})};
      },
      {})[0];
  return transformer::run_layers(layers_, x, layers, pass, *place_.registry, wanted);
}

// Of the products that are computed: 2 m n k each, and twice that again for the backward pass.
double TextTower::flops(const transformer::Ragged& texts) const {
  const auto width = static_cast<double>(config_.hidden_size),
             inner = static_cast<double>(config_.intermediate_size);
  double sum = 0;
  for (int64_t text = 0; text < texts.sequences(); ++text) {
    const auto rows = static_cast<double>(texts.length(text));
    sum += rows * (8 * width * width + 4 * width * inner) + (is_causal_ ? 2 : 4) * rows * rows * width;
  }
  return 3 * static_cast<double>(layers_.size()) * sum;
}

}  // namespace pipeline::encoder
