#include "hugging_face_config.hpp"

#include <stdexcept>

#include "hugging_face.hpp"
#include "plugins/tasks/common/hugging_face/config_file.hpp"

namespace pipeline::summarization {

using hugging_face::ConfigFile;
using nlohmann::json;

Gpt2Config read_gpt2_config(const std::string& path) {
  const ConfigFile file(path);
  Gpt2Config config;
  file.require("model_type", "gpt2");
  if (const json* activation = file.find("activation_function")) {
    // Three names for the tanh form of GELU.
    if (*activation != "gelu_new" && *activation != "gelu_pytorch_tanh" && *activation != "gelu_fast") {
      file.fail("activation_function",
                "only \"gelu_new\" (also named \"gelu_pytorch_tanh\", \"gelu_fast\") is supported");
    }
  }
  file.expect("scale_attn_weights", true);
  file.expect("scale_attn_by_inverse_layer_idx", false);
  file.expect("add_cross_attention", false);
  file.expect("tie_word_embeddings", true);
  file.read("vocab_size", config.vocab_size);
  file.read("n_positions", config.n_positions);
  file.read("n_embd", config.n_embd);
  file.read("n_layer", config.n_layer);
  file.read("n_head", config.n_head);
  file.read("n_inner", config.n_inner);
  file.read("layer_norm_epsilon", config.layer_norm_epsilon);
  file.read("initializer_range", config.initializer_range);
  file.read("embd_pdrop", config.embd_pdrop);
  file.read("attn_pdrop", config.attn_pdrop);
  file.read("resid_pdrop", config.resid_pdrop);
  file.read("bos_token_id", config.bos_token_id);
  file.read("eos_token_id", config.eos_token_id);
  try {
    config.check();
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
  return config;
}

std::string format_gpt2_config(const Gpt2Config& config) {
  json values = {
      {"model_type", "gpt2"},
      {"architectures", {"GPT2LMHeadModel"}},
      {"activation_function", "gelu_new"},
      {"vocab_size", config.vocab_size},
      {"n_positions", config.n_positions},
      {"n_ctx", config.n_positions},
      {"n_embd", config.n_embd},
      {"n_layer", config.n_layer},
      {"n_head", config.n_head},
      {"n_inner", config.n_inner > 0 ? json(config.n_inner) : json(nullptr)},
      {"layer_norm_epsilon", config.layer_norm_epsilon},
      {"initializer_range", config.initializer_range},
      {"embd_pdrop", config.embd_pdrop},
      {"attn_pdrop", config.attn_pdrop},
      {"resid_pdrop", config.resid_pdrop},
      {"bos_token_id", config.bos_token_id},
      {"eos_token_id", config.eos_token_id},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", true},
      {"use_cache", true},
      {"torch_dtype", "float32"},
  };
  return values.dump(2) + "\n";
}

std::string format_generation_config(const Gpt2Config& config) {
  return json{{"bos_token_id", config.bos_token_id}, {"eos_token_id", config.eos_token_id}}.dump(2) + "\n";
}

}  // namespace pipeline::summarization
