#include "tiny_model.hpp"

#include "language/architecture.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <fstream>
#include <test_paths.hpp>

namespace pipeline::language::testing {

Config tiny_config() {
  Config config = architecture("gpt2").defaults;
  config.vocab_size = 97;
  config.max_position_embeddings = 32;
  config.hidden_size = 32;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
  config.bos_token_id = config.eos_token_id = 84;
  return config;
}

void fill_by_formula(const LanguageModel& model) {
  const at::NoGradGuard no_grad;
  int64_t index = 0;
  for (const auto& [name, parameter] : named(model)) {
    const bool norm_weight = name.find("ln_") != std::string::npos && name.ends_with("weight");
    for (int64_t i = 0; i < parameter.numel(); ++i) {
      const double value = std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(index));
      parameter.data_ptr<float>()[i] = static_cast<float>(norm_weight ? 1 + 0.1 * value : 0.2 * value);
    }
    ++index;
  }
}

std::vector<std::vector<int64_t>> tiny_tokens() {
  std::vector<std::vector<int64_t>> tokens;
  for (const int64_t length : {7, 19, 32, 1}) {
    const auto s = static_cast<int64_t>(tokens.size());
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < length; ++i) ids.push_back((31 * s + 17 * i + i * i) % 97);
    tokens.push_back(ids);
  }
  return tokens;
}

std::vector<std::vector<int64_t>> tiny_targets() {
  std::vector<std::vector<int64_t>> targets;
  for (const auto& ids : tiny_tokens()) {
    std::vector<int64_t> wanted;
    for (size_t i = 0; i < ids.size(); ++i)
      wanted.push_back(i + 1 < ids.size() && i % 3 != 1 ? ids[i + 1] : -1);
    targets.push_back(wanted);
  }
  return targets;
}

PackedBatch tiny_batch() { return transformer::pack(tiny_tokens(), tiny_targets()); }

std::vector<double> checksums(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).flatten();
  const at::Tensor weights = at::cos(at::arange(flat.numel(), at::kDouble));
  return {flat.sum().item<double>(), flat.norm().item<double>(), flat.mul(weights).sum().item<double>()};
}

const nlohmann::json& fixture() {
  static const nlohmann::json value = [] {
    std::ifstream file(PIPELINE_SOURCE_DIR "/tests/models/language/gpt2/fixtures/tiny.json");
    return nlohmann::json::parse(file);
  }();
  return value;
}

}  // namespace pipeline::language::testing
