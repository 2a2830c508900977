#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/lora_options.hpp"
#include "plugins/models/encoder/esm2_folder.hpp"
#include "plugins/models/encoder/esm2_sequences.hpp"
#include "plugins/models/protein/label_head.hpp"
#include "plugins/models/protein/protein_model.hpp"
#include "transformer/layer.hpp"

namespace pipeline::encoder {

// ESM-2 for one device: a pre-norm transformer over the amino acids alone, without structure, with rotary
// positions. Parameters carry the names of Hugging Face's state dict, but that query, key and value are one
// ("esm.encoder.layer.0.attention.self.qkv.weight"). Unit 0 is what both ends use: the word embeddings, which
// are the output head as well, the last norm and the rest of the head. Units 1 to num_layers are the layers.
// With low-rank additions, they alone are trained, and what the options name beside them. With a head for
// labels (Esm2Config::label) it takes the place of the output head.
class Esm2 : public protein::ProteinModel {
 public:
  // Throws std::invalid_argument for a configuration that cannot be.
  // rule: of parameters, beside those of the additions; see ParameterRegistry.
  explicit Esm2(const Esm2Config& config, const adapters::LoraOptions& lora = {},
                const ParameterRegistry::Rule& rule = nullptr);
  Esm2(const Esm2&) = delete;
  Esm2& operator=(const Esm2&) = delete;

  const Esm2Config& config() const { return config_; }

  LossSum loss(const protein::PackedProteins& batch, const ForwardPass& pass) const override;
  protein::Outputs outputs(const protein::PackedProteins& batch, const ForwardPass& pass) const override;
  // Logits of all tokens, 33 of ESM-2, at target_rows: (T, tokens) fp32. Not differentiable.
  at::Tensor logits(const protein::PackedProteins& batch, const ForwardPass& pass) const;
  at::Tensor labels(const protein::PackedProteins& batch, const ForwardPass& pass) const override;
  protein::Embeddings embeddings(const protein::PackedProteins& batch, const ForwardPass& pass,
                                 int64_t layer) const override;
  int64_t layers() const override { return config_.num_layers; }
  int64_t width() const override { return config_.hidden_dim; }
  double flops(const protein::PackedProteins& batch) const override;

  void import_folder(const std::filesystem::path& folder) override;
  void export_folder(const std::filesystem::path& folder) const override;

  // As text. There is none before import_folder().
  std::string extra_state() const override { return extras_.pack(config_); }
  void set_extra_state(std::string_view state) override;

 protected:
  // For ESM C (../esmc), which is the same but for its parameters and its folders: declares none. `stream`:
  // how many times the model's own residual stream layers see here.
  Esm2(const Esm2Config& config, const adapters::LoraOptions& lora, const ParameterRegistry::Rule& rule,
       double stream);

  adapters::LoraOptions lora_;
  at::Tensor words_;  // (tokens, C)
  std::vector<transformer::Layer> layers_;
  transformer::Norm last_norm_;
  transformer::Linear head_dense_;
  transformer::Norm head_norm_;
  at::Tensor head_weight_, head_bias_;            // (tokens, C), which may be the words; (tokens)
  std::optional<protein::LabelHead> label_head_;  // or this

  void set_extras(esm2::Extras extras);
  const esm2::Extras& extras() const { return extras_; }

 private:
  // What the layers share, and what the first one gets: (R, C).
  transformer::LayerPass shared(const esm2::Sequences& sequences) const;
  at::Tensor embedded(const esm2::Sequences& sequences, const ForwardPass& pass) const;
  // The last layer's output at the target rows, of labels of chains at <cls>: (T, C).
  at::Tensor body(const protein::PackedProteins& batch, const ForwardPass& pass) const;
  // gelu(norm(x) W + b), fp32: what the head's own norm takes.
  at::Tensor head_input(const at::Tensor& x, at::ScalarType compute) const;

  // What the head of labels makes of a batch: then(its outputs), within unit 0.
  at::Tensor with_label_outputs(const protein::PackedProteins& batch, const ForwardPass& pass,
                                const std::function<at::Tensor(const at::Tensor&)>& then) const;

  void start_from_adapter();

  Esm2Config config_;
  double stream_;
  at::Tensor frequencies_;  // of the rotary positions
  esm2::Extras extras_;
};

}  // namespace pipeline::encoder
