#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "hugging_face/config_fields.hpp"
#include "language/config.hpp"
#include "transformer/gated_unit.hpp"

namespace pipeline::language {

// All that a model is made of, by the names that options have, in the order in which they are listed.
const hugging_face::ModelFields<Config>& model_fields();

// What the parts of a model are called in Hugging Face's folders, and here. Defaults: Llama's.
struct Names {
  const char* embedding = "model.embed_tokens.weight";
  const char* positions = nullptr;                 // a table of learnt ones
  const char* layers = "model.layers.";            // followed by a layer's number and a dot
  const char* attention_norm = "input_layernorm";  // nullptr, as mlp_norm may be: none
  const char* qkv = "self_attn.qkv_proj";
  const char *query_norm = "self_attn.q_norm", *key_norm = "self_attn.k_norm";
  const char* projection = "self_attn.o_proj";
  const char* mlp_norm = "post_attention_layernorm";
  // Norms of what attention and the MLP give, before it is added; nullptr: none.
  const char *attention_end_norm = nullptr, *mlp_end_norm = nullptr;
  const char *up = "mlp.gate_up_proj", *down = "mlp.down_proj";
  const char* last_norm = "model.norm";
  const char* of_words = "score";  // the head for labels of words; that of texts is "score" everywhere
  // Whether folders hold matrices as (out, in), and those of queries, keys, values, gate and up apart:
  // "self_attn.q_proj", "mlp.gate_proj".
  bool is_transposed = true, is_split = true;
  // (optional) How another version's folder calls a tensor -> how we do; empty: it is passed over.
  std::string (*plain)(const std::string& name) = nullptr;
};

// The weight of a norm that multiplies by 1 + weight. By this name a checkpoint of before, which has that sum
// as ".weight", is not taken for one of now.
inline constexpr const char* kOffset = ".offset";

// One row of the table of architectures: all that is particular to a family of models. README.md of
// plugins/models says how to add one.
struct Architecture {
  const char* name;                        // as `model_type` in a config.json, and as the options say it
  const char *config_class, *model_class;  // transformers'
  // (optional) What the names of its classes for labels begin with, if not what model_class begins with.
  const char* label_classes = nullptr;
  Config defaults;                      // where a config.json is silent
  hugging_face::Fields<Config> fields;  // what becomes of each field of the class
  // (optional) What is read from, and written to, a config.json besides these.
  void (*read)(const hugging_face::ConfigFile& file, Config& config) = nullptr;
  void (*write)(const Config& config, nlohmann::json& values) = nullptr;
  nlohmann::json written = nlohmann::json::object();  // always
  Names names = {};

  // How layers are made.
  bool is_rotary = true;  // positions turn queries and keys; otherwise they are a table
  bool is_rms = true;     // norms without mean and bias
  std::optional<transformer::Gate> gate = transformer::Gate::kSilu;  // none: an MLP with GELU
  bool has_local_positions = false;  // layers with a window have rope_local_theta; `read` reads them
  bool takes_any_head = true;        // head_dim, where num_attention_heads does not divide hidden_size
  bool has_output_bias = true;       // with attention_bias, of what attention gives back, too
  bool is_embedding_scaled = false;  // by sqrt(hidden_size)
  bool is_norm_above_one = false;    // norms multiply by 1 + weight
  bool has_query_norm = false;       // RMS norms of the heads of queries and keys,
  bool is_query_norm_whole = false;  // or one norm over all heads together
  // Initial weights that write to the residual stream are scaled by 1 / sqrt(2 layers).
  bool is_residual_scaled = false;

  // How its config.json calls this member; `otherwise` where it has none.
  template <class T>
  std::string key(T Config::*member, const char* otherwise) const {
    for (const auto& field : fields)
      if (const auto* held = std::get_if<T Config::*>(&field.use); held != nullptr && *held == member)
        return field.key;
    return otherwise;
  }
  template <class T>
  bool has(T Config::*member) const {
    return !key(member, "").empty();
  }
  // The key of a row of model_fields().
  std::string key(const hugging_face::ModelField<Config>& field) const {
    return std::visit([&](const auto member) { return key(member, field.checked); }, field.member);
  }
  bool has(const hugging_face::ModelField<Config>& field) const {
    if (field.is_there != nullptr) return field.is_there(defaults);
    return std::visit([&](const auto member) { return has(member); }, field.member);
  }
  // "Llama" of LlamaForSequenceClassification.
  std::string classes() const {
    const std::string whole = label_classes != nullptr ? label_classes : model_class;
    return whole.substr(0, std::min(whole.find("ForCausalLM"), whole.find("LMHeadModel")));
  }
  // A folder's config.json, or the part of a larger one. Throws an Error that names file, key and value where
  // the model is not one that we compute.
  Config config(const hugging_face::ConfigFile& file) const;
  nlohmann::json json(const Config& config) const;
};

std::span<const Architecture* const> architectures();
// Throws Error (PL_ERROR_CONFIG) with those that there are.
const Architecture& architecture(const std::string& name);

// Fields that the classes of Llama, Mistral, Qwen and Gemma have alike; `more`: the others of one;
// `activation`: what its gate may be.
hugging_face::Fields<Config> llama_fields(hugging_face::Fields<Config> more,
                                          hugging_face::Only activation = hugging_face::only({"silu",
                                                                                              "swish"}));

}  // namespace pipeline::language
