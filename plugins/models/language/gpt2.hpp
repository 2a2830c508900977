#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "language/language_model.hpp"
#include "transformer/layer.hpp"

namespace pipeline::language {

// As in a Hugging Face config.json; the defaults are GPT-2's with 124 million parameters.
struct Gpt2Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // 0: 4 n_embd
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double resid_pdrop = 0.1;
  int64_t bos_token_id = 50256;
  int64_t eos_token_id = 50256;

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

// GPT-2 for one device. Parameters carry the names of Hugging Face's state dict
// ("transformer.h.0.ln_1.weight"; lm_head is wte). Matrices decay, embeddings included; biases and norms do
// not. Unit 0 has the embeddings and the final norm.
class Gpt2 : public LanguageModel {
 public:
  explicit Gpt2(const Gpt2Config& config, Place place = {});

  const Gpt2Config& config() const { return config_; }

  LossSum loss(const PackedBatch& batch, const ForwardPass& pass,
               const Inserted& inserted = {}) const override;
  at::Tensor logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute = at::kFloat,
                    const Inserted& inserted = {}) const override;
  double flops(const PackedBatch& batch) const override;
  int64_t vocabulary() const override { return config_.vocab_size; }

  int64_t max_tokens() const override { return config_.n_positions; }
  int64_t layer_count() const override { return config_.n_layer; }
  int64_t width() const override { return config_.n_embd; }
  int64_t heads() const override { return config_.n_head; }
  at::Device device() const override { return wte_.device(); }
  at::Tensor embed_with(const at::Tensor& tokens, const at::Tensor& positions,
                        const Inserted& inserted) const override;
  at::Tensor layer(int64_t index, const at::Tensor& x, const at::Tensor& positions, at::ScalarType compute,
                   const Attention& attend) const override;
  at::Tensor logits_of(const at::Tensor& x, at::ScalarType compute) const override;

  const at::Tensor& token_embedding() const { return wte_; }

 private:
  // The final norm's input at `rows` (ascending).
  at::Tensor body(const PackedBatch& batch, const Inserted& inserted, const std::vector<int64_t>& rows,
                  const ForwardPass& pass, const std::shared_ptr<transformer::SharedGradient>& shared) const;

  Gpt2Config config_;
  at::Tensor wte_, wpe_;
  std::vector<transformer::Layer> layers_;
  transformer::Norm final_norm_;
};

// Hugging Face's folder of a GPT2LMHeadModel: config.json and model.safetensors, sharded or not, fp32, fp16,
// bf16 or fp64, names with or without "transformer.".

// Throws an Error that names file, key and value where the model is not the GPT-2 that we compute: another
// architecture, activation, or scaling of attention.
Gpt2Config read_gpt2_config(const std::string& path);

// The model's parameters start as those of the folder; its configuration is given back. Throws unless the
// folder holds this model: one error for all values of the configuration that differ, one for all tensors
// that are missing, unexpected or of another shape. Mask buffers (attn.bias) are passed over, and
// lm_head.weight must equal wte.weight. Its vocabulary may differ from ours: see import_llama().
Gpt2Config import_gpt2(const std::string& folder, Gpt2& model);

// Writes config.json and model.safetensors (fp32) that transformers loads. The folder must exist.
void export_gpt2(const std::string& folder, const Gpt2& model);

}  // namespace pipeline::language
