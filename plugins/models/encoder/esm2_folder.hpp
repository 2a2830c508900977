#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adapters/peft_folder.hpp"
#include "plugins/models/protein/label_head.hpp"
#include "tokenizer/folder_files.hpp"

namespace pipeline::encoder {

constexpr int64_t kMostWidth = 1 << 20,
                  kMostLayers = 1 << 14;  // beyond any machine, and no product of them overflows

// ESM-2 (Lin et al., "Evolutionary-scale prediction of atomic-level protein structure with a language model",
// Science 379, 2023). The defaults are those of the smallest model, 8M parameters.
struct Esm2Config {
  int64_t num_layers = 6;
  int64_t hidden_dim = 320;  // C
  int64_t num_heads = 20;
  int64_t intermediate = 0;  // of the MLP; 0: 4 C
  double hidden_dropout = 0;
  double attention_dropout = 0;
  bool token_dropout = true;  // see sequences.hpp
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  std::optional<protein::LabelForm> label = std::nullopt;  // in place of the output head

  int64_t inner() const { return intermediate > 0 ? intermediate : 4 * hidden_dim; }
  int64_t head_width() const { return hidden_dim / num_heads; }
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const;
};

}  // namespace pipeline::encoder

namespace pipeline::encoder::esm2 {

// What a folder of ESM-2 has besides the parameters that are trained here, fp32 in host memory. It is kept,
// and written back on export. Undefined: the folder had none, or there was no folder.
struct Extras {
  at::Tensor contact_weight;  // (1, layers * heads): predicts contacts from attention, not computed here
  at::Tensor contact_bias;    // (1)
  at::Tensor frequencies;     // (head width / 2), where they are others than rotary_frequencies(): as
                              // transformers says, those of older folders were rounded to fp16

  tokenizer::Files files;  // beside the tokenizer's vocabulary: tokenizer_config.json, ...

  // All that is there as text, empty where nothing is, and back.
  std::string pack(const Esm2Config& config) const;
  // Throws std::runtime_error where the text is damaged or of a model of another size.
  static Extras unpack(std::string_view text, const Esm2Config& config);

  // visit(name in the folder, tensor, its shape) for each
  template <class Self, class Visit>
  static void each(Self& self, const Esm2Config& config, Visit&& visit) {
    const int64_t maps = config.num_layers * config.num_heads;
    visit("esm.contact_head.regression.weight", self.contact_weight, std::vector<int64_t>{1, maps});
    visit("esm.contact_head.regression.bias", self.contact_bias, std::vector<int64_t>{1});
    visit("esm.rotary_embeddings.inv_freq", self.frequencies, std::vector<int64_t>{config.head_width() / 2});
  }
};

// Reads a config.json of EsmForMaskedLM, or of a model with a head for labels. Throws std::runtime_error that
// names file, key and value where the model is not the ESM-2 that we compute: other positions, norms,
// activation or vocabulary, ESMFold.
Esm2Config read_config(const std::string& path);
std::string format_config(const Esm2Config& config);

// Throws std::runtime_error unless `path` is not there or is the vocab.txt of ESM-2.
void check_vocabulary(const std::string& path);
// Writes vocab.txt, tokenizer_config.json and special_tokens_map.json.
void write_tokenizer(const std::string& folder);

adapters::AdaptedModel adapted_model(const Esm2Config& config);

// A folder of EsmForMaskedLM, EsmForSequenceClassification or EsmForTokenClassification: config.json,
// model.safetensors or shards, fp32, fp16, bf16 or fp64, and perhaps vocab.txt.

// The parameters start as those of the folder; what else it has is given back. Throws unless it holds the
// model of `config`; all values of the configuration that differ are in one error, and all tensors that are
// missing, unexpected or of another shape in another. Dropout and initial values are the run's own and not
// compared. Of labels a folder may have the head or not: then it is new, and the output head is passed over.
Extras import_folder(const std::string& path, const Esm2Config& config, ParameterRegistry& parameters);

// Writes the folder, in fp32, so that transformers loads it as EsmForMaskedLM and AutoTokenizer. What
// `extras` has not is written as zeros (contact head) and as it is by default (frequencies). `value`: see
// hugging_face::NameMap. The folder must exist.
void export_folder(const std::string& path, const Esm2Config& config, const ParameterRegistry& parameters,
                   const Extras& extras,
                   const std::function<at::Tensor(const ParameterRegistry::Declared&)>& value = nullptr);

}  // namespace pipeline::encoder::esm2
