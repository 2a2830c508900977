#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heads/label_form.hpp"
#include "hugging_face/config_file.hpp"
#include "language/rope_scaling.hpp"

namespace pipeline::language {

// A causal language model, whatever its architecture, by the names of a Hugging Face LlamaConfig; an
// architecture's own names are in its file. Defaults: SmolLM2 135M.
struct Config {
  std::string architecture = "llama";  // one of architectures()
  int64_t vocab_size = 49152;
  int64_t written_tokens = 0;  // rows from this number on have no token, and are never generated; 0: all have
  int64_t max_position_embeddings = 8192;
  int64_t hidden_size = 576;
  int64_t num_hidden_layers = 30;
  int64_t num_attention_heads = 9;
  int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t intermediate_size = 0;    // 0: 4 hidden_size
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  double initializer_range = 0.02;
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;
  bool tie_word_embeddings = true;
  bool attention_bias = false, mlp_bias = false;
  int64_t sliding_window = 0;     // how many tokens a token sees, itself included; 0: all before it
  int64_t max_window_layers = 0;  // so many layers at the beginning have no window
  // Every so many layers the last one sees all, with positions as rope_theta and rope_scaling say; the others
  // have the window, and rope_local_theta's positions. 0: they all have the window.
  int64_t full_attention_every = 0;
  // The layers' types, in any order, in place of the two members above: kSlidingAttention or kFullAttention;
  // empty: as those say.
  std::vector<std::string> layer_types = {};
  // For each layer, 1 where positions turn queries and keys, 0 where they do not; empty: they do in all.
  std::vector<int64_t> no_rope_layers = {};
  double rope_local_theta = 0;        // 0: as rope_theta
  int64_t query_pre_attn_scalar = 0;  // products of queries and keys are divided by its root; 0: head_width()
  // Attention's scores, and logits, x become cap * tanh(x / cap); 0: they stay.
  double attn_logit_softcapping = 0, final_logit_softcapping = 0;
  int64_t bos_token_id = 0;
  int64_t eos_token_id = 0;
  std::optional<heads::LabelForm> label = std::nullopt;  // of texts or words: in place of the output head
  bool is_headless = false;                              // nothing is in place of the output head

  bool operator==(const Config&) const = default;

  int64_t key_heads() const { return num_key_value_heads > 0 ? num_key_value_heads : num_attention_heads; }
  int64_t head_width() const { return head_dim > 0 ? head_dim : hidden_size / num_attention_heads; }
  // Whether this layer has the window.
  bool is_local(int64_t layer) const {
    if (sliding_window == 0) return false;
    if (!layer_types.empty()) return layer_types[static_cast<size_t>(layer)] != "full_attention";
    return layer >= max_window_layers &&
           (full_attention_every == 0 || (layer + 1) % full_attention_every != 0);
  }
  bool is_turned(int64_t layer) const {
    return no_rope_layers.empty() || no_rope_layers[static_cast<size_t>(layer)] != 0;
  }
  int64_t inner() const { return intermediate_size > 0 ? intermediate_size : 4 * hidden_size; }
  // Columns of queries, and of keys as of values.
  int64_t query_width() const { return num_attention_heads * head_width(); }
  int64_t key_width() const { return key_heads() * head_width(); }

  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault as the architecture's folders do, its
  // value and what it must be.
  void check() const;
};

// intermediate_size as options have it: where it is 0, the architecture's usual one.
int64_t usual_inner(const Config& config);

// What a config.json calls layers without and with a window, in its list of layer_types.
inline constexpr const char *kFullAttention = "full_attention", *kSlidingAttention = "sliding_attention";

// The types of the layers as Config::is_local() has them.
std::vector<std::string> layer_types(const Config& config);
// The types in the file, one for each layer; empty: it has no list.
std::vector<std::string> read_layer_types(const hugging_face::ConfigFile& file, const Config& config);
// Makes these types the configuration's, where its other members do not say the same. Throws an Error that
// names the first layer of a type that we do not compute.
void take_layer_types(const hugging_face::ConfigFile& file, std::vector<std::string> types, Config& config);

}  // namespace pipeline::language
