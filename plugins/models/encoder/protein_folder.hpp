// Folders of ESM-2 and ESM C, as transformers' EsmForMaskedLM and EsmcForMaskedLM have them, or their models
// with a head for labels: config.json, model.safetensors or shards, fp32, fp16, bf16 or fp64, and perhaps a
// tokenizer.
#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adapters/peft_folder.hpp"
#include "plugins/models/encoder/architecture.hpp"
#include "tokenizer/tokenizer.hpp"

namespace pipeline::encoder {

// A buffer of layers in older versions of transformers.
inline constexpr std::string_view kOldFrequencies = ".attention.self.rotary_embeddings.inv_freq";

// The rows that all protein encoders have, then `others`. The texts are the options' help.
struct SizeHelp {
  const char *layers, *width, *heads, *inner;
};
hugging_face::ModelFields<Config> esm_fields(const SizeHelp& help, int64_t (*inner)(const Config& config),
                                             const hugging_face::ModelFields<Config>& others);

// What a folder has besides the parameters that are trained here, fp32 in host memory. It is kept, and
// written back on export. Undefined: the folder had none, or there was no folder. ESM C has no such tensors.
struct Extras {
  at::Tensor contact_weight;  // (1, layers * heads): predicts contacts from attention, not computed here
  at::Tensor contact_bias;    // (1)
  at::Tensor frequencies;     // (head width / 2), where they are others than rotary_frequencies(): as
                              // transformers says, those of older folders were rounded to fp16

  tokenizer::Files files;  // of the tokenizer

  // All that is there as text, empty where nothing is, and back.
  std::string pack(const Architecture& row, const Config& config) const;
  // Throws std::runtime_error where the text is damaged or of a model of another size.
  static Extras unpack(std::string_view text, const Architecture& row, const Config& config);

  // visit(name in the folder, tensor, its shape) for each
  template <class Self, class Visit>
  static void each(Self& self, const Architecture& row, const Config& config, Visit&& visit) {
    if (!row.has_extras) return;
    const int64_t maps = config.num_hidden_layers * config.num_attention_heads;
    visit("esm.contact_head.regression.weight", self.contact_weight, std::vector<int64_t>{1, maps});
    visit("esm.contact_head.regression.bias", self.contact_bias, std::vector<int64_t>{1});
    visit("esm.rotary_embeddings.inv_freq", self.frequencies, std::vector<int64_t>{config.head_width() / 2});
  }
};

// The configuration in a config.json. Throws an Error (PL_ERROR_CONFIG) that names file, key and value where
// the model is not one that we compute: other positions, norms, activation or vocabulary, ESMFold.
Config read_config(const Architecture& row, const std::string& path);

adapters::AdaptedModel adapted_model(const Architecture& row, const Config& config);

// The parameters start as those of the folder; what else it has is given back. Throws unless it holds the
// model of `config`; all values of the configuration that differ are in one error, and all tensors that are
// missing, unexpected or of another shape in another. Dropout and initial values are the run's own and not
// compared. A folder may lack the head for labels, which is new then; the output head is passed over.
Extras import_folder(const std::string& path, const Architecture& row, const Config& config,
                     ParameterRegistry& parameters);

// Writes the folder, in fp32, so that transformers loads it, its tokenizer, too. What `extras` has not is
// written as zeros (contact head) and as it is by default (frequencies). `value`: see hugging_face::NameMap.
// The folder must exist.
void export_folder(const std::string& path, const Architecture& row, const Config& config,
                   const ParameterRegistry& parameters, const Extras& extras,
                   const std::function<at::Tensor(const ParameterRegistry::Declared&)>& value = nullptr);

}  // namespace pipeline::encoder
