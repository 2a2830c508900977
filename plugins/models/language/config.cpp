#include "language/config.hpp"

#include <algorithm>
#include <tuple>

#include "language/architecture.hpp"

namespace pipeline::language {
namespace {

// Beyond any machine, and no product of them overflows.
constexpr int64_t kMostRows = 1 << 24, kMostWidth = 1 << 20, kMostLayers = 1 << 14;

const Architecture& row_of(const Config& config) { return architecture(config.architecture); }
bool has_layers_by_pattern(const Config& config) {
  return row_of(config).has(&Config::query_pre_attn_scalar);
}

}  // namespace

const hugging_face::ModelFields<Config>& model_fields() {
  using Field = hugging_face::ModelField<Config>;
  static const hugging_face::ModelFields<Config> kFields{
      Field("vocab_size", &Config::vocab_size,
            "rows of the embedding; 0, or too few: as many as the tokenizer has tokens")
          .range(1, kMostRows)
          .set_from(0, kMostRows)
          .not_compared(),
      Field("hidden_size", &Config::hidden_size, "width of the residual stream").range(1, kMostWidth),
      Field("num_hidden_layers", &Config::num_hidden_layers, "layers").range(1, kMostLayers),
      Field("num_attention_heads", &Config::num_attention_heads, "attention heads").range(1, kMostWidth),
      Field("num_key_value_heads", &Config::num_key_value_heads,
            "heads of keys and values; 0: num_attention_heads; not for gpt2")
          .set_from(0)
          .null_is_0()
          .stands_for([](const Config& config) { return config.key_heads(); },
                      [](const Config& config) { return config.key_heads(); }),
      Field("head_dim", &Config::head_dim,
            "channels of a head; 0: hidden_size / num_attention_heads; not for gpt2")
          .range(0, kMostWidth)
          .null_is_0()
          .stands_for([](const Config& config) { return config.head_width(); },
                      [](const Config& config) {
                        const bool is_usual = config.query_width() == config.hidden_size;
                        return is_usual ? 0 : config.head_dim;
                      }),
      Field("intermediate_size", &Config::intermediate_size,
            "width of the feed-forward layer; 0: 8/3 x hidden_size in multiples of 32, with gpt2 4 x "
            "hidden_size")
          .range(0, kMostWidth)
          .stands_for([](const Config& config) { return config.inner(); })
          .as_good([](const Config& set, const Config& theirs) {
            Config same = theirs;
            same.intermediate_size = set.intermediate_size;
            return usual_inner(same) == theirs.inner();
          }),
      Field("max_position_embeddings", &Config::max_position_embeddings,
            "longest sequence, a picture's patches included")
          .range(1, kMostRows)
          .set_from(8)
          .unit("tokens")
          .not_compared([](const Config& config) { return !row_of(config).is_rotary; })
          .as_good([](const Config& set, const Config& theirs) {
            return row_of(theirs).is_rotary && set.max_position_embeddings < theirs.max_position_embeddings;
          }),
      Field("sliding_window", &Config::sliding_window,
            "mistral, qwen, gemma: how many tokens a token sees; 0: all before it")
          .range(0, kMostRows)
          .unit("tokens")
          .null_is_0(),
      Field("max_window_layers", &Config::max_window_layers,
            "qwen: so many layers at the beginning have no window")
          .range(0, kMostLayers)
          .unit("layers"),
      Field("full_attention_every", &Config::full_attention_every,
            "gemma: of so many layers the last one sees all tokens before it; 0: none does, where there is a "
            "window")
          .range(0, kMostLayers)
          .unit("layers")
          .where(has_layers_by_pattern),
      Field("layer_types", &Config::layer_types,
            "qwen, gemma: which layers have the window, in any order, a name for each: sliding_attention, "
            "full_attention; empty: as max_window_layers and full_attention_every say")
          .where([](const Config& config) {
            return has_layers_by_pattern(config) || row_of(config).has(&Config::max_window_layers);
          }),
      Field("no_rope_layers", &Config::no_rope_layers,
            "smollm3: 1 for each layer with rotary positions, 0 for one without; empty: all have them"),
      Field("rope_local_theta", &Config::rope_local_theta,
            "gemma3: rope_theta of the layers with a window; 0: as the others")
          .not_negative(),
      Field("query_pre_attn_scalar", &Config::query_pre_attn_scalar,
            "gemma: products of queries and keys are divided by its root; 0: head_dim")
          .range(0, kMostWidth),
      Field("attn_logit_softcapping", &Config::attn_logit_softcapping,
            "gemma: cap of attention's scores; 0: none")
          .not_negative()
          .null_is_0(),
      Field("final_logit_softcapping", &Config::final_logit_softcapping, "gemma: cap of the logits; 0: none")
          .not_negative()
          .null_is_0(),
      Field("norm_eps", &Config::norm_eps, "added to the variance").positive(),
      Field("rope_theta", &Config::rope_theta, "base of the rotary positions; not for gpt2").positive(),
      Field("tie_word_embeddings", &Config::tie_word_embeddings,
            "the embedding is the output head, too; always with gpt2"),
      Field("attention_bias", &Config::attention_bias,
            "biases in attention; gpt2 and qwen2 always have them, mistral never"),
      Field("mlp_bias", &Config::mlp_bias, "llama: biases in the feed-forward layer; gpt2 always has them"),
      Field("dropout", &Config::attention_dropout, "of attention weights").share().of_run(),
      Field("embedding_dropout", &Config::embedding_dropout, "gpt2: of tokens with their positions")
          .share()
          .of_run(),
      Field("residual_dropout", &Config::residual_dropout, "gpt2: before residual additions")
          .share()
          .of_run(),
      Field("initializer_range", &Config::initializer_range, "standard deviation of initial weights")
          .positive()
          .of_run(),
  };
  return kFields;
}

void Config::check() const {
  const Architecture& row = language::architecture(architecture);
  hugging_face::check_fields(model_fields(), *this, [&](const auto& field) { return row.key(field); });
  const std::string heads = row.key(&Config::num_attention_heads, "num_attention_heads");
  hugging_face::check_range("num_key_value_heads", num_key_value_heads, 0, num_attention_heads);
  if (head_dim == 0 && hidden_size % num_attention_heads != 0)
    fail_with(PL_ERROR_CONFIG, heads, " = ", num_attention_heads, ": must divide ",
              row.key(&Config::hidden_size, "hidden_size"), " (", hidden_size, ")");
  if (num_attention_heads % key_heads() != 0)
    fail_with(PL_ERROR_CONFIG, "num_key_value_heads = ", num_key_value_heads,
              ": must divide num_attention_heads (", num_attention_heads, ")");
  if (row.is_rotary && head_width() % 2 != 0)
    fail_with(PL_ERROR_CONFIG, head_dim > 0 ? "head_dim" : heads, " = ",
              head_dim > 0 ? head_dim : num_attention_heads, ": gives heads of ", head_width(),
              " channels: rotary positions need an even number");
  for (const auto& [key, size, what] : {std::tuple("layer_types", layer_types.size(), " names"),
                                        {"no_rope_layers", no_rope_layers.size(), " numbers"}})
    if (size > 0 && static_cast<int64_t>(size) != num_hidden_layers)
      fail_with(PL_ERROR_CONFIG, key, " has ", size, what, ": must be one for each of ", num_hidden_layers,
                " layers");
  for (const std::string& type : layer_types)
    if (type != kFullAttention && type != kSlidingAttention)
      fail_with(PL_ERROR_CONFIG, "layer_types has \"", type, "\": must be ", kFullAttention, " or ",
                kSlidingAttention);
  rope_scaling.check(head_width());
  if (rope_scaling.type == "yarn" && !(rope_theta > 1))
    fail_with(PL_ERROR_CONFIG, "rope_theta = ", rope_theta, ": must be above 1 for yarn positions");
}

int64_t usual_inner(const Config& config) {
  if (config.intermediate_size > 0 || !row_of(config).gate) return config.inner();
  constexpr int64_t kMultiple = 32;
  return (8 * config.hidden_size / 3 + kMultiple - 1) / kMultiple * kMultiple;
}

std::vector<std::string> layer_types(const Config& config) {
  std::vector<std::string> types;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    types.emplace_back(config.is_local(i) ? kSlidingAttention : kFullAttention);
  return types;
}

std::vector<std::string> read_layer_types(const hugging_face::ConfigFile& file, const Config& config) {
  const nlohmann::json* found = file.find("layer_types");
  if (found == nullptr) return {};
  const auto is_text = [](const nlohmann::json& one) { return one.is_string(); };
  if (!found->is_array() || static_cast<int64_t>(found->size()) != config.num_hidden_layers ||
      !std::ranges::all_of(*found, is_text))
    file.fail("layer_types",
              concat("must be a list of num_hidden_layers (", config.num_hidden_layers, ") names"));
  return found->get<std::vector<std::string>>();
}

void take_layer_types(const hugging_face::ConfigFile& file, std::vector<std::string> types, Config& config) {
  if (types.empty()) return;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != kFullAttention && types[i] != kSlidingAttention)
      file.fail("layer_types", concat("layer ", i, " is \"", types[i], "\" and must be ", kFullAttention,
                                      " or ", kSlidingAttention));
    if (types[i] == kSlidingAttention && config.sliding_window == 0)
      file.fail("layer_types", concat("layer ", i, " is \"", types[i], "\" and must be ", kFullAttention,
                                      ": no window is in use"));
  }
  if (types != layer_types(config)) config.layer_types = std::move(types);
}

}  // namespace pipeline::language
