// Folders of PEFT: adapter_config.json, and adapter_model.safetensors with the LoRA matrices and what was
// trained as a whole.
#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <functional>
#include <string>
#include <vector>

#include "adapters/lora.hpp"
#include "hugging_face/weights.hpp"

namespace pipeline::adapters {

// What reading and writing an adapter takes to know of its model.
struct AdaptedModel {
  std::vector<LoraTarget> targets;  // all that there are
  // Matrices that PEFT can have LoRA for, too, and we do not.
  std::vector<std::string> others = {};
  // The tensors of the whole model's folder for a parameter, for all but LoRA's.
  std::function<std::vector<hugging_face::Piece>(const Parameter& parameter)> pieces = nullptr;
  // See hugging_face::NameMap.
  std::function<std::string(const std::string& name)> plain_name = nullptr;
  std::function<at::Tensor(const ParameterRegistry::Declared& parameter)> value = nullptr;
  std::function<void(const Parameter& parameter, at::Tensor& value)> as_ours = nullptr;
  std::string task_type = "CAUSAL_LM";  // PEFT's; empty: none
  bool has_conv1d = false;              // matrices are (in, out) in the folder, too, as GPT-2's
  // What a path of `targets` begins with here, and in the folder of a larger model that has other matrices,
  // too.
  std::string ours = "", theirs = "";
  // Names in the folder of an output head and the embedding that it is again; empty: it is another, or none.
  std::string head = "", tied_to = "";
};

// The folder's configuration; its targets are those that it has tensors for. Throws Error (PL_ERROR_CONFIG)
// that names file, key and value where the adapter is not one that we compute, or not for such a model.
LoraConfig read_adapter(const std::string& folder, const AdaptedModel& model);

// LoRA starts as in the folder, and so does whatever it has besides. It is opened when the first of
// them is asked for: a run that goes on does not need it.
void start_from_adapter(const std::string& folder, ParameterRegistry& parameters, const AdaptedModel& model);

// Writes both files, which `peft` loads, in fp32: LoRA's matrices, and other parameters that are trained. The
// folder must exist. base_model: what adapter_config.json calls the model.
void export_adapter(const std::string& folder, const ParameterRegistry& parameters, const LoraConfig& config,
                    const AdaptedModel& model, const std::string& base_model);

}  // namespace pipeline::adapters
