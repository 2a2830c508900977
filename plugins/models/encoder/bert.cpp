// BERT (Devlin et al., arXiv:1810.04805), RoBERTa (Liu et al., arXiv:1907.11692), XLM-RoBERTa (Conneau et
// al., arXiv:1911.02116) and DistilBERT (Sanh et al., arXiv:1910.01108): norms follow residual additions.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "plugins/models/encoder/architecture.hpp"

namespace pipeline::encoder {

// What folders have around the encoder: heads of all kinds, and what is no weight.
std::string plain_name_of_text_encoder(const std::string& in_folder) {
  std::string name = in_folder;
  for (const char* prefix : {"bert.", "roberta.", "distilbert.", "model."})
    if (name.starts_with(prefix)) name = hugging_face::after(name, prefix);
  const auto begins = [&](const char* part) { return name.starts_with(part); };
  constexpr std::array kParts{"embeddings.", "encoder.", "transformer.", "layers.", "final_norm."};
  const bool is_encoders = std::ranges::any_of(kParts, begins);
  if (!is_encoders || name.ends_with(".position_ids")) return "";
  for (const auto& [from, to] : {std::pair(".gamma", ".weight"), {".beta", ".bias"}})  // TensorFlow's
    if (name.ends_with(from)) return name.substr(0, name.size() - std::string(from).size()) + to;
  return name;
}

using Field = hugging_face::ModelField<Config>;

hugging_face::ModelFields<Config> bert_fields(const BertKeys& keys) {
  return {
      vocab_size_field(),
      Field("max_position_embeddings", &Config::max_position_embeddings,
            "rows of the table of positions: tokens of a text at most; of (xlm-)roberta two more")
          .range(3, kMostWidth),
      Field("hidden_size", &Config::hidden_size, "width")
          .range(1, kMostWidth)
          .called(keys.width)
          .checked_as(keys.width),
      Field("num_hidden_layers", &Config::num_hidden_layers, "layers")
          .range(1, kMostLayers)
          .called(keys.layers)
          .checked_as(keys.layers),
      Field("num_attention_heads", &Config::num_attention_heads, "attention heads")
          .range(1, kMostWidth)
          .called(keys.heads)
          .checked_as(keys.heads),
      Field("intermediate_size", &Config::intermediate_size, "width of the feed-forward layers")
          .range(1, kMostWidth)
          .called(keys.inner)
          .checked_as(keys.inner),
      Field("hidden_act", &Config::hidden_act, "activation")
          .choices({"gelu", "gelu_new", "gelu_pytorch_tanh"})
          .called(keys.activation)
          .checked_as(keys.activation),
      Field("initializer_range", &Config::initializer_range, "standard deviation of initial weights")
          .positive()
          .of_run(),
      Field("hidden_dropout", &Config::hidden_dropout, "of the embedding, and before each residual addition")
          .share()
          .of_run()
          .called(keys.dropout)
          .checked_as(keys.dropout),
      Field("attention_dropout", &Config::attention_dropout, "of attention weights")
          .share()
          .of_run()
          .called(keys.attention_dropout)
          .checked_as(keys.attention_dropout),
  };
}

namespace {

using hugging_face::only;

const Config kBase{.vocab_size = 30522,
                   .max_position_embeddings = 512,
                   .type_vocab_size = 2,
                   .hidden_size = 768,
                   .num_hidden_layers = 12,
                   .num_attention_heads = 12,
                   .intermediate_size = 3072,
                   .layer_norm_eps = 1e-12,
                   .hidden_act = "gelu",
                   .hidden_dropout = 0.1,
                   .attention_dropout = 0.1};

Architecture bert() {
  using namespace hugging_face;
  auto all = bert_fields({});
  all.push_back(Field("type_vocab_size", &Config::type_vocab_size,
                      "rows of the table that tells a text from one that follows it")
                    .range(1, kMostWidth));
  all.push_back(
      Field("layer_norm_eps", &Config::layer_norm_eps, "added to the variance in norms").positive());
  return {.name = "bert",
          .type = "bert",
          .config_class = "BertConfig",
          .classes = "Bert",
          .defaults = kBase,
          .theirs = kBase,
          .fields = all,
          .others = {{"position_embedding_type", only({"absolute"})},
                     {"pad_token_id", kWithoutEffect},
                     {"bos_token_id", kWithoutEffect},  // the tokenizer says
                     {"eos_token_id", kWithoutEffect},
                     {"is_decoder", only({false})},
                     {"add_cross_attention", only({false})},
                     {"tie_word_embeddings", kWithoutEffect},  // of heads
                     {"classifier_dropout", kWithoutEffect},
                     {"use_cache", kWithoutEffect},
                     {"gradient_checkpointing", kWithoutEffect}},
          .written = {{"architectures", {"BertModel"}}, {"pad_token_id", 0}, {"torch_dtype", "float32"}},
          .names = {.words = "embeddings.word_embeddings.weight",
                    .positions = "embeddings.position_embeddings.weight",
                    .types = "embeddings.token_type_embeddings.weight",
                    .first_norm = "embeddings.LayerNorm",
                    .layers = "encoder.layer.",
                    .layer = {"attention.output.LayerNorm", "attention.self.qkv", "attention.output.dense",
                              "output.LayerNorm", "intermediate.dense", "output.dense"},
                    .qkv = {"query", "key", "value"},
                    .head_dense = "cls.predictions.transform.dense",
                    .head_norm = "cls.predictions.transform.LayerNorm",
                    .head_bias = "cls.predictions.bias",
                    .in_folder = "bert.",
                    .tied_head = "cls.predictions.decoder.weight",
                    .label_dense = "bert.pooler.dense",
                    .label_out = "classifier"},
          .head_has_own_gelu = false,
          .is_post_norm = true,
          .plain_name = plain_name_of_text_encoder};
}

// Positions begin behind the number of the token for padding.
Architecture roberta(const char* type, const char* config_class, const char* classes) {
  Architecture row = bert();
  row.name = row.type = type;
  row.config_class = config_class;
  row.classes = classes;
  row.theirs.vocab_size = 50265;
  row.written["architectures"] = {std::string(classes) + "Model"};
  row.written["pad_token_id"] = 1;
  row.first_position = 2;
  row.names.head_dense = "lm_head.dense";
  row.names.head_norm = "lm_head.layer_norm";
  row.names.head_bias = "lm_head.bias";
  row.names.in_folder = "roberta.";
  row.names.tied_head = "lm_head.decoder.weight";
  row.names.label_dense = "classifier.dense";
  row.names.label_out = "classifier.out_proj";
  row.head_has_own_gelu = row.drops_before_label_dense = true;
  for (auto& other : row.others)
    if (other.key == std::string_view("pad_token_id")) other.use = only({1});
  return row;
}

Architecture distilbert() {
  using namespace hugging_face;
  Architecture row = bert();
  row.name = row.type = "distilbert";
  row.config_class = "DistilBertConfig";
  row.classes = "DistilBert";
  row.theirs.num_hidden_layers = 6;
  row.fields = bert_fields({.width = "dim",
                            .layers = "n_layers",
                            .heads = "n_heads",
                            .inner = "hidden_dim",
                            .activation = "activation",
                            .dropout = "dropout",
                            .attention_dropout = "attention_dropout"});
  row.others = {{"sinusoidal_pos_embds", kWithoutEffect},  // how the table began
                {"pad_token_id", kWithoutEffect},         {"eos_token_id", kWithoutEffect},
                {"bos_token_id", kWithoutEffect},         {"tie_word_embeddings", kWithoutEffect},
                {"tie_weights_", kWithoutEffect},         {"qa_dropout", kWithoutEffect},
                {"seq_classif_dropout", kWithoutEffect}};
  row.written = {{"architectures", {"DistilBertModel"}}, {"pad_token_id", 0}, {"torch_dtype", "float32"}};
  row.names.types = nullptr;
  row.names.head_dense = "vocab_transform";
  row.names.head_norm = "vocab_layer_norm";
  row.names.head_bias = "vocab_projector.bias";
  row.names.in_folder = "distilbert.";
  row.names.tied_head = "vocab_projector.weight";
  row.names.label_dense = "pre_classifier";
  row.label_activation = Activation::kRelu;
  row.names.layers = "transformer.layer.";
  row.names.layer = {"sa_layer_norm",     "attention.qkv", "attention.out_lin",
                     "output_layer_norm", "ffn.lin1",      "ffn.lin2"};
  row.names.qkv = {"q_lin", "k_lin", "v_lin"};
  return row;
}

}  // namespace

const Architecture& text_encoder(std::string_view name) {
  static const std::array<Architecture, kTextEncoders.size()> kRows{
      bert(), distilbert(), roberta("roberta", "RobertaConfig", "Roberta"),
      roberta("xlm-roberta", "XLMRobertaConfig", "XLMRoberta"), modern_bert()};
  const auto* const found =
      std::ranges::find_if(kRows, [&](const Architecture& row) { return row.name == name; });
  if (found == kRows.end()) fail_with(PL_ERROR_CONFIG, "there is no encoder of texts called ", name);
  return *found;
}

}  // namespace pipeline::encoder
