#pragma once

#include <pipeline/torch/parameter_registry.hpp>

#include <string>

#include "plugins/tasks/protein/esm2/esm2_config.hpp"
#include "plugins/tasks/protein/esm2/extras.hpp"

namespace pipeline::protein::esm2 {

// A folder of EsmForMaskedLM: config.json, model.safetensors or shards, fp32, fp16, bf16 or fp64, and perhaps
// vocab.txt.

// The parameters start as those of the folder; what else it has is given back. Throws unless it holds the
// model of `config`; all values of the configuration that differ are in one error, and all tensors that are
// missing, unexpected or of another shape in another. Dropout and initial values are the run's own and not
// compared.
Extras import_folder(const std::string& path, const Esm2Config& config, ParameterRegistry& parameters);

// Writes the folder, in fp32, so that transformers loads it as EsmForMaskedLM and AutoTokenizer. What
// `extras` has not is written as zeros (contact head) and as it is by default (frequencies). The folder must
// exist.
void export_folder(const std::string& path, const Esm2Config& config, const ParameterRegistry& parameters,
                   const Extras& extras);

}  // namespace pipeline::protein::esm2
