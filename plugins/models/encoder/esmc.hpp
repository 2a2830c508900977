#pragma once

#include <filesystem>
#include <string>

#include "adapters/lora_options.hpp"
#include "plugins/models/encoder/esm2.hpp"
#include "plugins/models/encoder/esmc_folder.hpp"

namespace pipeline::encoder {

// ESM C: ESM-2 with SwiGLU, without biases of matrices, with a layer norm over all queries and one over all
// keys, and with an output head that is not the word embeddings. Parameters carry the names of Hugging Face's
// state dict, but that query, key and value are one ("esmc.layers.0.self_attn.qkv_proj.weight"), and gate and
// up ("mlp.gate_up_proj"). Units as ESM-2's.
class Esmc : public Esm2 {
 public:
  // Throws std::invalid_argument for a configuration that cannot be.
  explicit Esmc(const EsmcConfig& config, const adapters::LoraOptions& lora = {},
                const ParameterRegistry::Rule& rule = nullptr);

  const EsmcConfig& config() const { return config_; }

  void import_folder(const std::filesystem::path& folder) override;
  void export_folder(const std::filesystem::path& folder) const override;

 private:
  transformer::Layer add_layer(int64_t number, double epsilon);
  transformer::Norm add_plain_norm(const std::string& name, uint32_t unit, double epsilon);
  transformer::Linear add_matrix(const std::string& name, int64_t in, int64_t out, uint32_t unit);
  void start_from_adapter();

  EsmcConfig config_;
};

}  // namespace pipeline::encoder
