#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "adapters/peft_folder.hpp"
#include "plugins/models/encoder/esm2_folder.hpp"
#include "tokenizer/folder_files.hpp"

namespace pipeline::encoder {

// ESM C (EvolutionaryScale, "ESM Cambrian", 2024). The defaults are those of the smallest model, 300M
// parameters.
struct EsmcConfig {
  int64_t num_layers = 30;
  int64_t hidden_dim = 960;  // C
  int64_t num_heads = 15;
  int64_t intermediate = 0;  // of the MLP; 0: 8/3 C, the next multiple of 256
  double attention_dropout = 0;
  double initializer_range = 0.02;
  std::optional<protein::LabelForm> label = std::nullopt;  // in place of the output head

  int64_t inner() const;
  // What each branch of a layer is divided by before it is added.
  double branch_divisor() const;
  // What an ESM-2 of this size is; what is particular to either is not in it.
  Esm2Config as_esm2() const;
  // Throws an Error (PL_ERROR_CONFIG) that names the first key at fault, its value and what it must be.
  void check() const { as_esm2().check(); }
};

}  // namespace pipeline::encoder

namespace pipeline::encoder::esmc {

// Tokens by number: ESM-2's but for the break between chains; the model has rows for 64.
constexpr std::array<std::string_view, 33> kVocabulary = {
    "<cls>", "<pad>", "<eos>", "<unk>", "L", "A", "G", "V", "S", "E", "R", "T", "I", "D", "P", "K",     "Q",
    "N",     "F",     "Y",     "M",     "H", "W", "C", "X", "B", "U", "Z", "O", ".", "-", "|", "<mask>"};
constexpr int64_t kRows = 64;

constexpr const char *kWords = "esmc.embed_tokens.weight", *kDecoder = "lm_head.decoder";

// Reads a config.json of EsmcForMaskedLM, or of a model with a head for labels. Throws an Error
// (PL_ERROR_CONFIG) that names file, key and value where the model is not the ESM C that we compute.
EsmcConfig read_config(const std::string& path);
std::string format_config(const EsmcConfig& config);

adapters::AdaptedModel adapted_model(const EsmcConfig& config);

// A folder of EsmcForMaskedLM, or of a model with a head for labels: config.json, model.safetensors or
// shards, fp32, fp16, bf16 or fp64, and perhaps tokenizer.json and what lies beside it.

// The parameters start as those of the folder; the tokenizer's files are given back. Throws unless it holds
// the model of `config`, with one error for all values of the configuration that differ, and one for all
// tensors that are missing, unexpected or of another shape. Dropout and initial values are the run's own.
tokenizer::Files import_folder(const std::string& path, const EsmcConfig& config,
                               ParameterRegistry& parameters);

// Writes the folder, in fp32, so that transformers loads it as EsmcForMaskedLM and AutoTokenizer. `files`: of
// the tokenizer, those that differ from the usual ones. `value`: see hugging_face::NameMap. The folder must
// exist.
void export_folder(const std::string& path, const EsmcConfig& config, const ParameterRegistry& parameters,
                   const tokenizer::Files& files,
                   const std::function<at::Tensor(const ParameterRegistry::Declared&)>& value = nullptr);

}  // namespace pipeline::encoder::esmc
