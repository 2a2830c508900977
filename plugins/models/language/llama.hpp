#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"
#include "language/language_model.hpp"
#include "language/rope_scaling.hpp"
#include "transformer/layer.hpp"

namespace pipeline::language {

// As in a Hugging Face config.json; the defaults are those of SmolLM2 135M.
struct LlamaConfig {
  int64_t vocab_size = 49152;
  int64_t max_position_embeddings = 8192;
  int64_t hidden_size = 576;
  int64_t num_hidden_layers = 30;
  int64_t num_attention_heads = 9;
  int64_t num_key_value_heads = 3;
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  int64_t intermediate_size = 1536;
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  double initializer_range = 0.02;
  double attention_dropout = 0;
  bool tie_word_embeddings = true;
  int64_t bos_token_id = 0;
  int64_t eos_token_id = 0;

  int64_t head_width() const { return head_dim > 0 ? head_dim : hidden_size / num_attention_heads; }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

// What is learnt besides a model that stays as it is: for each of `targets` alpha / rank times a product of
// two thin matrices, "lora.model.layers.0.self_attn.q_proj.down" (in, rank) and ".up" (rank, out). A stage
// with them may start from one without: at first they add nothing.
struct LoraConfig {
  static constexpr std::array kTargets{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                       "gate_proj", "up_proj", "down_proj"};

  int64_t rank = 0;  // 0: none
  double alpha = 16;
  std::vector<std::string> targets = {"q_proj", "v_proj"};

  void check() const;
  // What is wrong with the targets; empty: nothing.
  std::string targets_problem() const;
};

// Llama (Touvron et al., arXiv:2302.13971; grouped-query attention since Llama 2) for one device: RMS norms,
// rotary positions, SwiGLU, no biases. Parameters carry the names of Hugging Face's state dict, but that
// matrices are (in, out) and those which read the same input are one: "model.layers.0.self_attn.qkv_proj",
// "model.layers.0.mlp.gate_up_proj". Unit 0 has the embedding, the last norm and, where it is not tied to the
// embedding, the output head.
class Llama : public LanguageModel {
 public:
  explicit Llama(const LlamaConfig& config, Place place = {}, const LoraConfig& lora = {});

  // The parameter's value with what was learnt besides it.
  at::Tensor merged(const ParameterRegistry::Declared& parameter) const;

  const LlamaConfig& config() const { return config_; }

  LossSum loss(const PackedBatch& batch, const ForwardPass& pass,
               const Inserted& inserted = {}) const override;
  at::Tensor logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute = at::kFloat,
                    const Inserted& inserted = {}) const override;
  double flops(const PackedBatch& batch) const override;
  int64_t vocabulary() const override { return config_.vocab_size; }

  int64_t max_tokens() const override { return config_.max_position_embeddings; }
  int64_t layer_count() const override { return config_.num_hidden_layers; }
  int64_t width() const override { return config_.hidden_size; }
  int64_t heads() const override { return config_.num_attention_heads; }
  int64_t key_heads() const override { return config_.num_key_value_heads; }
  int64_t head_width() const override { return config_.head_width(); }
  at::Device device() const override { return embedding_.device(); }
  at::Tensor embed_with(const at::Tensor& tokens, const at::Tensor& positions,
                        const Inserted& inserted) const override;
  at::Tensor layer(int64_t index, const at::Tensor& x, const at::Tensor& positions, at::ScalarType compute,
                   const Attention& attend) const override;
  at::Tensor logits_of(const at::Tensor& x, at::ScalarType compute) const override;

 private:
  // The last norm's input at `rows` (ascending).
  at::Tensor body(const PackedBatch& batch, const Inserted& inserted, const std::vector<int64_t>& rows,
                  const ForwardPass& pass, const std::shared_ptr<transformer::SharedGradient>& shared) const;
  const at::Tensor& head() const { return config_.tie_word_embeddings ? embedding_ : head_; }

  void add_lora(const LoraConfig& lora, uint32_t layer);

  LlamaConfig config_;
  at::Tensor embedding_, head_;  // (V, C)
  std::vector<transformer::Layer> layers_;
  transformer::Norm last_norm_;
  at::Tensor frequencies_;  // of the rotary positions
};

// Hugging Face's folder of a LlamaForCausalLM: config.json and model.safetensors, sharded or not.

// Throws an Error that names file, key and value where the model is not the Llama that we compute.
LlamaConfig read_llama_config(const hugging_face::ConfigFile& file);
nlohmann::json llama_json(const LlamaConfig& config);
// What differs, by the names that options have in [task.language].
void compare_llama(const LlamaConfig& ours, const LlamaConfig& theirs,
                   hugging_face::Differences& differences);
// The folder's tensors for a parameter of ours, whose name begins with `prefix`. `more_tokens`: that the
// folder's vocabulary has behind ours; below 0: that ours has behind the folder's.
std::vector<hugging_face::Piece> llama_pieces(const Parameter& parameter, const LlamaConfig& config,
                                              const std::string& prefix, int64_t more_tokens = 0);

// A model's place in the folder of a larger one.
struct FolderPart {
  std::string config;  // the member of config.json
  // The name that a tensor has in a folder of its own; empty: it is another part's.
  std::function<std::string(const std::string& name)> name;
};

// The model's parameters start as those of the folder; its configuration is given back. Throws unless the
// folder holds this model; one error for all that differs. Its vocabulary may be larger than ours, or
// smaller: the rows of tokens that it does not have start as the mean of the others.
LlamaConfig import_llama(const std::string& folder, Llama& model, const FolderPart& part = {});

// Writes config.json and model.safetensors (fp32). The folder must exist.
void export_llama(const std::string& folder, const Llama& model);

}  // namespace pipeline::language
