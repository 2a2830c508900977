#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

#include "gpt2_config.hpp"
#include "transformer/attention.hpp"
#include "transformer/blocks.hpp"
#include "transformer/cross_entropy_head.hpp"
#include "transformer/ragged.hpp"

namespace pipeline::summarization {

// A micro-batch: sequences end to end, no padding. All tensors are (N) int64 on the model's device.
struct PackedBatch {
  at::Tensor tokens;
  at::Tensor positions;  // within each sequence
  at::Tensor targets;    // the token to predict at each row; -1: no loss
  transformer::Ragged sequences;
  std::vector<int64_t>
      target_rows;  // the rows with a target, in host memory, so that nobody waits for a device
};

// From sequences of tokens and, per sequence, as many targets.
PackedBatch pack(const std::vector<std::vector<int64_t>>& tokens,
                 const std::vector<std::vector<int64_t>>& targets);

struct ForwardOptions {
  bool training = false;                // dropout is active
  uint64_t dropout_seed = 0;            // of this micro-batch; masks are a function of it
  at::ScalarType compute = at::kFloat;  // of the matrix products
  bool checkpoint_activations = false;  // keep only the layers' inputs, compute the rest again
  double scale = 1;                     // of the loss that is differentiated
  int64_t head_chunk = 0;               // see transformer::HeadOptions
  // Where the parts of the token embedding's gradient go; see transformer::SharedGradient. Null: through
  // autograd, in one.
  std::function<void(at::Tensor head)> take_head = nullptr;
  std::function<void(const at::Tensor& rows, const at::Tensor& values)> take_rows = nullptr;
};

// Wraps the forward pass of one unit: 1 .. n_layer are the layers; 0 is what both ends of the model use, the
// embeddings and the final norm, so it is passed through twice. For gathering parameters, timing, tests.
using Tensors = std::vector<at::Tensor>;
using UnitBody = std::function<Tensors(const Tensors& inputs)>;
using UnitWrapper = std::function<Tensors(int64_t unit, const Tensors& inputs, const UnitBody& body)>;

// One layer's parameters. Weights are (in, out), as in Hugging Face's Conv1D.
struct Gpt2Layer {
  transformer::Norm ln_1, ln_2;
  transformer::Linear attention, attention_projection, up, down;
  std::vector<at::Tensor> parameters() const;
};

// GPT-2 for one device. Parameters carry the names of Hugging Face's state dict
// ("transformer.h.0.ln_1.weight"; lm_head is wte) and are allocated, not initialised: see initial_value().
// The forward pass reads them through the registered tensors, so their storage may be replaced (set_data) at
// any time between passes. Not for several threads at once.
class Gpt2 : public torch::nn::Module {
 public:
  explicit Gpt2(const Gpt2Config& config);

  const Gpt2Config& config() const { return config_; }
  void set_unit_wrapper(UnitWrapper wrapper) { wrapper_ = std::move(wrapper); }

  // The loss over the rows with a target. Without gradients (at::NoGradGuard) only the loss is computed.
  transformer::Loss loss(const PackedBatch& batch, const ForwardOptions& options);

  // Logits of the given rows, in fp32; no dropout, no gradients. rows: (R) int64 -> (R, vocab_size).
  at::Tensor logits(const PackedBatch& batch, const at::Tensor& rows, at::ScalarType compute = at::kFloat);

  // The pieces, for generation. embed(): (N, C).
  at::Tensor embed(const at::Tensor& tokens, const at::Tensor& positions, const ForwardOptions& options,
                   std::shared_ptr<transformer::SharedGradient> shared = nullptr) const;
  const std::vector<Gpt2Layer>& layers() const { return layers_; }
  const transformer::Norm& final_norm() const { return final_norm_; }
  const at::Tensor& token_embedding() const { return wte_; }

 private:
  at::Tensor parameter(torch::nn::Module& owner, const std::string& name, at::IntArrayRef shape);
  transformer::Norm norm(torch::nn::Module& owner);
  transformer::Linear linear(torch::nn::Module& owner, int64_t in, int64_t out);
  Tensors run_unit(int64_t unit, const Tensors& inputs, const UnitBody& body) const;
  at::Tensor layer(int64_t index, const at::Tensor& x, const transformer::AttentionLayout& layout,
                   const ForwardOptions& options) const;
  // The layer's output at `rows` (R) alone: of the other rows only keys and values are computed.
  at::Tensor layer_at(int64_t index, const at::Tensor& x, const at::Tensor& rows,
                      const transformer::AttentionLayout& layout, const ForwardOptions& options) const;
  // The final norm's input at `rows` (ascending).
  at::Tensor body(const PackedBatch& batch, const std::vector<int64_t>& rows, const ForwardOptions& options,
                  std::shared_ptr<transformer::SharedGradient> shared) const;

  Gpt2Config config_;
  at::Tensor wte_, wpe_;
  std::vector<Gpt2Layer> layers_;
  transformer::Norm final_norm_;
  UnitWrapper wrapper_;
};

}  // namespace pipeline::summarization
