// Transformer encoders of sequences: ESM-2 and ESM C of proteins, BERT and its kin, and the text towers of
// CLIP and SigLIP. They are one class, and each of them a row that says how it is made, and how its folders
// are written.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/lora.hpp"
#include "heads/label_form.hpp"
#include "hugging_face/config_fields.hpp"
#include "hugging_face/weights.hpp"
#include "tokenizer/tokenizer.hpp"
#include "transformer/layer.hpp"

namespace pipeline::encoder {

constexpr int64_t kMostWidth = 1 << 20, kMostLayers = 1 << 14,
                  kMostTokens = 1 << 24;  // beyond any machine, and no product of them overflows

// The configuration of an encoder of any kind, by the names in CLIP's folders; the defaults are those of the
// text tower of its ViT-B/32.
struct Config {
  int64_t vocab_size = 49408;
  int64_t max_position_embeddings = 77;  // rows of the table; see most_tokens()
  int64_t type_vocab_size = 0;           // BERT's: of a text and the one that follows it
  int64_t hidden_size = 512;             // C
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 8;
  int64_t intermediate_size = 2048;  // of the MLP; 0: see Architecture::inner()
  double layer_norm_eps = 1e-5;
  double initializer_range = 0.02;
  std::string hidden_act = "quick_gelu";  // or "gelu", "gelu_pytorch_tanh"
  double hidden_dropout = 0, attention_dropout = 0;
  bool token_dropout = false;  // see sequences.hpp
  // Of ModernBERT: every so many layers, from the first, see all of a text; the others half of
  // `local_attention` to either side. Each kind has its own rotary positions.
  int64_t global_attn_every_n_layers = 3, local_attention = 128;
  double global_rope_theta = 160000, local_rope_theta = 10000;
  std::string classifier_pooling = "cls";                // or "mean": what a head for labels of texts reads
  std::optional<heads::LabelForm> label = std::nullopt;  // in place of the output head

  int64_t head_width() const { return hidden_size / num_attention_heads; }
};

// What the parts are called in folders, and here. Query, key and value, or gate and up, are several matrices
// there and one here.
struct Names {
  const char *words, *positions = nullptr;             // tables; without the latter positions are rotary
  const char *types = nullptr, *first_norm = nullptr;  // of BERT's embeddings: a table, and a norm
  const char* layers;                                  // followed by a layer's number and a dot
  transformer::LayerNames layer;
  std::vector<const char*> qkv = {"q_proj", "k_proj", "v_proj"}, up = {};  // in folders
  const char *query_norm = nullptr, *key_norm = nullptr;
  const char* last_norm = nullptr;  // behind the layers
  // For proteins: the table that makes logits, without which it is the words'; and the head for labels of
  // residues.
  const char *decoder = nullptr, *of_residues = nullptr;
  // Of the head that tells hidden tokens: see TokenHead. in_folder, of texts: what stands before an encoder's
  // names where there is a head; tied_head: what the words are called once more.
  const char *head_dense = "lm_head.dense", *head_norm = "lm_head.layer_norm", *head_bias = nullptr;
  const char *in_folder = "", *tied_head = "";
  const char *label_dense = nullptr, *label_norm = nullptr,
             *label_out = nullptr;  // of texts' heads for labels: see LabelEncoder
};

enum class Activation { kTanh, kRelu, kGelu };

struct Architecture {
  const char* name;                    // as options have it
  const char* type;                    // `model_type` in a config.json
  const char *config_class, *classes;  // transformers': "EsmConfig"; what the names of its models begin with
  Config defaults, theirs;             // of options; of a config.json that is silent
  hugging_face::ModelFields<Config> fields;
  // What becomes of the other fields of the class: the first value of Only is written, too.
  hugging_face::Fields<Config> others;
  nlohmann::json written = {};  // into every config.json
  // (optional) What is read from a config.json, or checked there, and written there, besides.
  void (*read_more)(const hugging_face::ConfigFile& file, Config& config) = nullptr;
  void (*write)(const Config& config, nlohmann::json& values) = nullptr;
  Names names;

  bool is_causal = false;
  bool head_has_own_gelu = true;  // the exact one, whatever hidden_act is
  Activation label_activation = Activation::kTanh;
  bool drops_before_label_dense = false, has_label_dense_of_words = false;  // see LabelEncoder
  bool has_biases = true;                                  // of the layers' matrices, and of the last norm
  bool has_bias_in_norms = true, has_bias_in_head = true;  // of the layers; of TokenHead and label_dense
  bool has_first_attention_norm = true;                    // the first layer reads what first_norm gives
  std::optional<transformer::Gate> gate = {};              // of the MLP; none: a GELU
  bool has_local_layers = false;                           // and rotary positions: see Config
  bool is_post_norm = false;   // norms follow each residual addition instead of beginning what is added
  int64_t first_position = 0;  // row of the table for a text's first token
  bool decays_words = true;
  // What a layer adds is divided by sqrt(layers / 36) first.
  bool divides_branches = false;

  // For proteins: reads a folder's tokenizer, which must be the architecture's own, and gives back what an
  // export is to have of it; writes the usual one; how other versions call tensors; and whether folders have
  // Extras.
  tokenizer::Files (*read_tokenizer)(const std::string& folder) = nullptr;
  void (*write_tokenizer)(const std::string& folder) = nullptr;
  std::string (*plain_name)(const std::string& name) = nullptr;
  bool has_extras = false;

  // Tokens of a text at most, those that begin and end it included.
  int64_t most_tokens(const Config& config) const { return config.max_position_embeddings - first_position; }
  bool is_local(const Config& config, int64_t layer) const {
    return has_local_layers && layer % config.global_attn_every_n_layers != 0;
  }
  bool has(const char* field) const;  // whether options of this name are of this kind
  // The width of the MLP, also where intermediate_size is 0.
  int64_t inner(const Config& config) const;
  // How many times the model's own residual stream the layers see. A layer adds what its branches give,
  // divided by a constant d, to the residual stream x, and reads it through norms. Here layers see d x:
  // nothing is divided, and norms with d^2 epsilon give the same.
  double stream(const Config& config) const;
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check(const Config& config) const;

  // The configuration in a config.json, without check(). Throws an Error that names file, key and value where
  // the model is not one that we compute.
  Config read(const hugging_face::ConfigFile& file, Config start) const;
  nlohmann::json json(const Config& config) const;
  // `table`: that of the options.
  void compare(const std::string& table, const Config& ours, const Config& folders,
               hugging_face::Differences& differences) const;

  // The folder's tensors for a parameter of ours; both begin with `prefix`. more_tokens: see
  // hugging_face::Piece::more_rows.
  std::vector<hugging_face::Piece> pieces(const Parameter& parameter, const std::string& prefix = "",
                                          int64_t more_tokens = 0) const;
  // prefix: of its parameters; first_unit: of its units.
  std::vector<adapters::LoraTarget> lora_targets(const Config& config, const std::string& prefix = "",
                                                 uint32_t first_unit = 0) const;
};

// The field that all encoders of texts have alike.
hugging_face::ModelField<Config> vocab_size_field();

const Architecture& esm2();
const Architecture& esmc();
const Architecture& text_tower(bool is_clip);  // CLIP's, or SigLIP's
// What a config.json calls the fields that BERT and its kin share, where it has other names than BERT's.
struct BertKeys {
  const char *width = "hidden_size", *layers = "num_hidden_layers", *heads = "num_attention_heads",
             *inner = "intermediate_size", *activation = "hidden_act", *dropout = "hidden_dropout_prob",
             *attention_dropout = "attention_probs_dropout_prob";
};
hugging_face::ModelFields<Config> bert_fields(const BertKeys& keys);
Architecture modern_bert();
// How the encoder by itself calls a tensor of a text encoder's folder; empty: it is of a head, or no weight.
std::string plain_name_of_text_encoder(const std::string& in_folder);
// The options of all encoders of texts together.
hugging_face::ModelFields<Config> text_encoder_fields();
// BERT and its kin: one of kTextEncoders. Throws an Error (PL_ERROR_CONFIG) for
// another name.
const Architecture& text_encoder(std::string_view name);
inline constexpr std::array<const char*, 5> kTextEncoders{"bert", "distilbert", "roberta", "xlm-roberta",
                                                          "modernbert"};

}  // namespace pipeline::encoder
