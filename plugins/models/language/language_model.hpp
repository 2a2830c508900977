#pragma once

#include <pipeline/torch/forward.hpp>
#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adapters/lora.hpp"
#include "generation/decoder.hpp"
#include "language/config.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/distillation.hpp"
#include "transformer/embedding.hpp"
#include "transformer/layer.hpp"
#include "transformer/packed_batch.hpp"

namespace pipeline::language {

using transformer::Inserted;
using transformer::PackedBatch;

struct Architecture;
class LanguageModel;

// Where a model's parameters go: into a registry that other parts of a larger model may share. Names begin
// with `prefix`; the model's unit u is the registry's unit first_unit + u.
struct ParameterPlace {
  std::shared_ptr<ParameterRegistry> registry = std::make_shared<ParameterRegistry>();
  std::string prefix = {};
  uint32_t first_unit = 0;
};

// What is asked of a loss besides its sum.
struct LossDetails {
  transformer::LossTerms terms = {};
  // (rows) float32, receives the cross entropy of each row with a target, without the terms; undefined:
  // nobody asks
  at::Tensor row_losses = {};
  // (optional) Another model of the same tokens, which is not trained, and how the loss is mixed with the
  // divergence from it.
  const LanguageModel* teacher = nullptr;
  transformer::Distillation distillation = {};
};

// A causal language model of any architecture of the table, for one device. Parameters carry the names of
// Hugging Face's state dict, but that matrices are (in, out) and those which read the same input are one, as
// the architecture's Names have it, and a Gemma's norms have an "offset" for a "weight". Matrices and
// embeddings decay; biases and norms do not. Unit 0 is what both ends use, the embedding, the last norm and
// the output head, so it is passed through twice; the layers are units 1 to layer_count(). The forward pass
// reads the registered tensors, so their storage may be replaced (set_data) at any time between passes. Not
// for several threads at once.
class LanguageModel : public generation::DecoderModel {
 public:
  static constexpr bool kOwnPrecision = true;

  explicit LanguageModel(const Config& config, ParameterPlace place = {},
                         const adapters::LoraConfig& lora = {});

  const Config& config() const { return config_; }
  const Architecture& architecture() const { return architecture_; }
  ParameterRegistry& parameters() { return *place_.registry; }
  const ParameterRegistry& parameters() const { return *place_.registry; }
  const ParameterPlace& place() const { return place_; }
  // Whether it is one of this model's, of which the registry may have more.
  bool has_unit(uint32_t unit) const {
    return unit >= place_.first_unit && unit - place_.first_unit <= static_cast<uint64_t>(layer_count());
  }

  // The loss over the rows with a target. Without gradients (at::NoGradGuard) only the loss is computed.
  LossSum loss(const PackedBatch& batch, const ForwardPass& pass, const LossDetails& details = {},
               const Inserted& inserted = {}) const;

  // The cross entropy of each row with a target, (R) float32, for losses that are not their sum.
  at::Tensor row_losses(const PackedBatch& batch, const ForwardPass& pass) const;

  // With Config::label, in place of the losses and of the logits: what `then` makes of what the head gives at
  // the rows with a target, (T, label->outputs()) fp32. Differentiable; batch.targets do not matter.
  at::Tensor with_labels(const PackedBatch& batch, const ForwardPass& pass,
                         const std::function<at::Tensor(const at::Tensor& outputs)>& then) const;

  // What the last norm gives at these rows, ascending: (R, C) fp32. Differentiable.
  at::Tensor last_rows(const PackedBatch& batch, const std::vector<int64_t>& rows,
                       const ForwardPass& pass) const;

  // Logits of the given rows, in fp32; no dropout, no gradients. rows: (R) int64 -> (R, vocabulary).
  at::Tensor logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute = at::kFloat,
                    const Inserted& inserted = {}) const;

  // What it says of each row with a target, (T): its k likeliest of the first `vocabulary` tokens.
  transformer::LikeliestTokens likeliest_tokens(const PackedBatch& batch, at::ScalarType compute,
                                                int64_t vocabulary, int64_t k, double temperature) const;

  // Floating-point operations of forward and backward.
  double flops(const PackedBatch& batch) const;

  // The parameter's value with what was learnt besides it.
  at::Tensor merged(const ParameterRegistry::Declared& parameter) const {
    return adapters::merged(parameter, layers_);
  }

  const at::Tensor& token_embedding() const { return embedding_; }

  // For generation; tokens, positions: (N) int64 -> (N, C).
  at::Tensor embed_with(const at::Tensor& tokens, const at::Tensor& positions,
                        const Inserted& inserted) const;
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions) const override {
    return embed_with(tokens, positions, {});
  }
  int64_t max_tokens() const override { return config_.max_position_embeddings; }
  int64_t positions_change_after() const override {
    return long_frequencies_.defined() ? config_.rope_scaling.original_max_position_embeddings : 0;
  }
  transformer::AttentionLayout attention(int64_t layer) const override;
  int64_t layer_count() const override { return config_.num_hidden_layers; }
  int64_t width() const override { return config_.hidden_size; }
  int64_t heads() const override { return config_.num_attention_heads; }
  int64_t key_heads() const override { return config_.key_heads(); }
  int64_t head_width() const override { return config_.head_width(); }
  at::Device device() const override { return embedding_.device(); }
  at::Tensor layer(int64_t index, const at::Tensor& x, const at::Tensor& positions, at::ScalarType compute,
                   const Attention& attend) const override;
  at::Tensor logits_of(const at::Tensor& x, at::ScalarType compute) const override;

 private:
  friend class WithoutAdapters;
  // The loss by the head, of what the last layer gives at the rows with a target.
  LossSum loss_of(const at::Tensor& x, const PackedBatch& batch, const ForwardPass& pass,
                  const LossDetails& details,
                  const std::shared_ptr<transformer::SharedGradient>& shared) const;
  // Calls `run` where the head may be used, with what gives its logits for rows of x.
  void with_logits(const at::Tensor& x, const ForwardPass& pass,
                   const std::function<void(const std::function<at::Tensor(int64_t, int64_t)>&)>& run) const;
  std::string name(const std::string& plain) const { return place_.prefix + plain; }
  uint32_t unit(uint32_t own) const { return place_.first_unit + own; }
  transformer::Norm add_norm(const std::string& plain, int64_t width, uint32_t unit);
  void add_layer(int64_t index);
  void add_label_head();
  const at::Tensor& head() const { return head_.defined() ? head_ : embedding_; }
  transformer::Rotation rotation(const at::Tensor& positions, bool is_local) const;
  at::ScalarType stream_type() const;
  at::Tensor scaled(const at::Tensor& embedded) const;
  // The last norm's input at `rows` (ascending).
  at::Tensor body(const PackedBatch& batch, const Inserted& inserted, const std::vector<int64_t>& rows,
                  const ForwardPass& pass, const std::shared_ptr<transformer::SharedGradient>& shared) const;

  Config config_;
  const Architecture& architecture_;
  ParameterPlace place_;
  double lora_dropout_;
  at::Tensor embedding_, positions_;  // (V, C); a table of positions (P, C) or undefined
  at::Tensor head_;                   // (V, C); undefined: the embedding
  transformer::Linear label_head_;    // in place of both
  std::vector<transformer::Layer> layers_;
  transformer::Norm last_norm_;
  // Frequencies of rotary positions; those of the local layers, and of long sequences, if others.
  at::Tensor frequencies_, local_frequencies_, long_frequencies_;
};

// While it lives, the model computes as if there were no LoRA.
class WithoutAdapters {
 public:
  explicit WithoutAdapters(LanguageModel& model);
  ~WithoutAdapters() { model_.layers_.swap(layers_); }
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;

 private:
  LanguageModel& model_;
  std::vector<transformer::Layer> layers_;  // with it; they stay where a backward pass may look for them
};

}  // namespace pipeline::language
