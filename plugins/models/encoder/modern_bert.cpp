// ModernBERT (Warner et al., arXiv:2412.13663): rotary positions, GeGLU, norms before what is added, no
// biases, and layers that see a window of a text.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "plugins/models/encoder/architecture.hpp"

namespace pipeline::encoder {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;
using Field = hugging_face::ModelField<Config>;

constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

hugging_face::ModelFields<Config> own_fields() {
  return {
      Field("global_attn_every_n_layers", &Config::global_attn_every_n_layers,
            "of modernbert: every so many layers, from the first, see all of a text")
          .range(1, kMostLayers),
      Field("local_attention", &Config::local_attention,
            "of modernbert: the others see half of this to either side")
          .range(2, kMostWidth)
          .unit("tokens"),
      Field("global_rope_theta", &Config::global_rope_theta,
            "of modernbert: base of the rotary positions' frequencies, in layers that see all")
          .positive(),
      Field("local_rope_theta", &Config::local_rope_theta, "of modernbert: that of the others").positive(),
      Field("classifier_pooling", &Config::classifier_pooling,
            "of modernbert: what a head for labels of texts reads, a text's first row or the mean of all")
          .choices({"cls", "mean"}),
  };
}

// Since version 5 of transformers a list says which layers see all.
void read_layer_types(const ConfigFile& file, Config& config) {
  const json* const types = file.find("layer_types");
  if (types == nullptr || !types->is_array()) return;
  const auto is_as = [&](int64_t every) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i)
      if ((*types)[static_cast<size_t>(i)] != (i % every == 0 ? kFull : kSliding)) return false;
    return true;
  };
  if (static_cast<int64_t>(types->size()) == config.num_hidden_layers && !types->empty()) {
    if (is_as(std::max<int64_t>(config.global_attn_every_n_layers, 1))) return;
    const auto second = std::find(types->begin() + 1, types->end(), kFull);
    config.global_attn_every_n_layers = second - types->begin();
    if (is_as(config.global_attn_every_n_layers)) return;
  }
  file.fail("layer_types", concat("must have ", config.num_hidden_layers, " types: \"", kFull,
                                  "\" first and every so many layers, \"", kSliding, "\" between"));
}

struct Rope {
  double theta;
};

void read_more(const ConfigFile& file, Config& config) {
  using namespace hugging_face;
  read_layer_types(file, config);
  static const Fields<Rope> kFields{{"rope_type", only({"default"})},
                                    {"type", only({"default"})},
                                    {"rope_theta", &Rope::theta},
                                    {"partial_rotary_factor", only({1.0})}};
  if (file.find("rope_parameters") == nullptr) return;
  const ConfigFile both = file.part("rope_parameters");
  for (const std::string& key : both.keys())
    if (key != kFull && key != kSliding)
      both.fail(key, concat("must not be there: rope_parameters has ", kFull, " and ", kSliding, " alone"));
  for (const auto& [kind, theta] :
       {std::pair(kFull, &Config::global_rope_theta), {kSliding, &Config::local_rope_theta}})
    if (both.find(kind) != nullptr)
      config.*theta = read_fields(both.part(kind), kFields, "ModernBertConfig", Rope{config.*theta}).theta;
}

void write_more(const Config& config, json& values) {
  json types = json::array();
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    types.push_back(i % config.global_attn_every_n_layers == 0 ? kFull : kSliding);
  values["layer_types"] = types;
  const auto rope = [](double theta) { return json{{"rope_type", "default"}, {"rope_theta", theta}}; };
  values["rope_parameters"] = {{kFull, rope(config.global_rope_theta)},
                               {kSliding, rope(config.local_rope_theta)}};
  // A run's dropout has other places than theirs.
  values["embedding_dropout"] = values["attention_dropout"] = 0.0;
}

}  // namespace

hugging_face::ModelFields<Config> text_encoder_fields() {
  hugging_face::ModelFields<Config> all = text_encoder("bert").fields;
  for (const Field& field : own_fields()) all.push_back(field);
  return all;
}

Architecture modern_bert() {
  using namespace hugging_face;
  const Config base{.vocab_size = 50368,
                    .max_position_embeddings = 8192,
                    .hidden_size = 768,
                    .num_hidden_layers = 22,
                    .num_attention_heads = 12,
                    .intermediate_size = 1152,
                    .hidden_act = "gelu"};
  ModelFields<Config> fields = bert_fields({.activation = "hidden_activation",
                                            .dropout = "embedding_dropout",
                                            .attention_dropout = "attention_dropout"});
  for (Field& field : fields)
    if (std::string_view(field.name) == "hidden_act") field.choices({"gelu"});
  fields.push_back(Field("layer_norm_eps", &Config::layer_norm_eps, "added to the variance in norms")
                       .positive()
                       .called("norm_eps")
                       .checked_as("norm_eps"));
  for (const Field& field : own_fields()) fields.push_back(field);
  return {.name = "modernbert",
          .type = "modernbert",
          .config_class = "ModernBertConfig",
          .classes = "ModernBert",
          .defaults = base,
          .theirs = base,
          .fields = fields,
          .others = {{"layer_types", kReadElsewhere},
                     {"rope_parameters", kReadElsewhere},
                     {"attention_bias", only({false})},
                     {"mlp_bias", only({false})},
                     {"norm_bias", only({false})},
                     {"decoder_bias", only({true})},
                     {"classifier_bias", only({false})},
                     {"classifier_activation", only({"gelu"})},
                     {"mlp_dropout", only({0.0})},
                     {"classifier_dropout", kWithoutEffect},
                     {"initializer_cutoff_factor", kWithoutEffect},
                     {"layer_norm_eps", kWithoutEffect},  // norm_eps is it
                     {"position_embedding_type", kWithoutEffect},
                     {"pad_token_id", kWithoutEffect},
                     {"bos_token_id", kWithoutEffect},  // the tokenizer says
                     {"eos_token_id", kWithoutEffect},
                     {"cls_token_id", kWithoutEffect},
                     {"sep_token_id", kWithoutEffect},
                     {"tie_word_embeddings", kWithoutEffect},  // of heads
                     {"deterministic_flash_attn", kWithoutEffect},
                     {"sparse_prediction", kWithoutEffect},
                     {"sparse_pred_ignore_index", kWithoutEffect},
                     {"reference_compile", kWithoutEffect},
                     {"repad_logits_with_grad", kWithoutEffect},
                     {"gradient_checkpointing", kWithoutEffect}},
          .written = {{"architectures", {"ModernBertModel"}},
                      {"pad_token_id", nullptr},
                      {"bos_token_id", nullptr},
                      {"eos_token_id", nullptr},
                      {"cls_token_id", nullptr},
                      {"sep_token_id", nullptr},
                      {"torch_dtype", "float32"}},
          .read_more = read_more,
          .write = write_more,
          .names = {.words = "embeddings.tok_embeddings.weight",
                    .first_norm = "embeddings.norm",
                    .layers = "layers.",
                    .layer = {"attn_norm", "attn.Wqkv", "attn.Wo", "mlp_norm", "mlp.Wi", "mlp.Wo"},
                    .qkv = {},
                    .last_norm = "final_norm",
                    .head_dense = "head.dense",
                    .head_norm = "head.norm",
                    .head_bias = "decoder.bias",
                    .in_folder = "model.",
                    .tied_head = "decoder.weight",
                    .label_dense = "head.dense",
                    .label_norm = "head.norm",
                    .label_out = "classifier"},
          .label_activation = Activation::kGelu,
          .has_label_dense_of_words = true,
          .has_biases = false,
          .has_bias_in_norms = false,
          .has_bias_in_head = false,
          .has_first_attention_norm = false,
          .gate = transformer::Gate::kExactGelu,
          .has_local_layers = true,
          .plain_name = plain_name_of_text_encoder};
}

}  // namespace pipeline::encoder
