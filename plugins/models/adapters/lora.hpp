// LoRA: low-rank updates of the matrices of a model that otherwise stays as it is (Hu et al.,
// arXiv:2106.09685).
#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "transformer/layer.hpp"

namespace pipeline::adapters {

struct LoraConfig {
  int64_t rank = 0;  // 0: no LoRA
  double alpha = 16;
  // Other values for some matrices, as in PEFT: "PATTERN = VALUE", a regular expression of paths or of what
  // follows a dot in them. The first that a path fits counts.
  std::vector<std::string> rank_pattern = {}, alpha_pattern = {};
  bool use_rslora = false;  // scaled by alpha / sqrt(rank) (Kalajdzievski, arXiv:2312.03732)
  double dropout = 0;       // of the input of LoRA matrices
  // Patterns, see is_one_of(): the matrices, empty for the model's usual ones; and what is trained as a whole
  // beside them.
  std::vector<std::string> targets = {}, modules_to_save = {};

  bool operator==(const LoraConfig&) const = default;
  int64_t rank_of(const std::string& module) const;
  double alpha_of(const std::string& module) const;
  double scale(const std::string& module) const;
  // Throws Error (PL_ERROR_CONFIG) that names the first key at fault.
  void check() const;
};

// Whether a module's path ("model.layers.0.self_attn.q_proj"), or an end of it that begins behind a dot, is
// as one of the patterns, in which * stands for anything.
bool is_one_of(const std::string& module, const std::vector<std::string>& patterns);

// The expression and the number of "PATTERN = VALUE". Throws Error (PL_ERROR_CONFIG) for what is none.
std::pair<std::string, double> pattern_of(const char* key, const std::string& text);
// The number of the first of such texts that a module's path fits, or `otherwise`.
double value_of(const char* key, const std::vector<std::string>& texts, const std::string& module,
                double otherwise);

// Whether a parameter is trained in a run with this LoRA.
bool is_trained(const Parameter& parameter, const LoraConfig& config);

// A matrix of a layer that may have LoRA: columns `first` on of one of the layer's.
struct LoraTarget {
  std::string module;  // as PEFT calls it
  size_t layer;
  std::vector<transformer::Lora> transformer::Layer::*lora;
  int64_t first, in, out;
  uint32_t unit;
  bool is_usual;  // where LoraConfig::targets is empty
};

// For add_targets(), which adds one layer after another; `prefix` begins the paths of layer `number`.
struct LayerMatrix {
  std::string name;
  std::vector<transformer::Lora> transformer::Layer::*lora;
  int64_t first, in, out;
  bool is_usual = false;
};
void add_targets(std::vector<LoraTarget>& all, const std::string& prefix, int64_t number, uint32_t unit,
                 const std::vector<LayerMatrix>& matrices);

// The targets that the configuration means, in their order. `problem`: what is wrong with the patterns;
// empty: nothing.
struct ChosenTargets {
  std::vector<LoraTarget> targets;
  std::string problem;
};
ChosenTargets chosen(const LoraConfig& config, const std::vector<LoraTarget>& all);

// Declares, for each of `targets`, "lora.MODULE.down" (in, rank), uniform within 1 / sqrt(in) as PEFT has it,
// and "lora.MODULE.up" (rank, out), zero: at first they add nothing. A stage with them may start from one
// without. Throws Error (PL_ERROR_CONFIG) for a pattern that means none of `all`, or of modules_to_save none
// of the model's parameters, which are there already.
void add_lora(ParameterRegistry& parameters, const LoraConfig& config, const std::vector<LoraTarget>& all,
              std::vector<transformer::Layer>& layers);

// The parameter's value with its LoRA merged: fp32 where it has any.
at::Tensor merged(const ParameterRegistry::Declared& parameter,
                  const std::vector<transformer::Layer>& layers);

}  // namespace pipeline::adapters
