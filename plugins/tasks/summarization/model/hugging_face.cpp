#include "hugging_face.hpp"

#include "hugging_face/config_file.hpp"
#include "hugging_face/weights.hpp"

namespace pipeline::summarization {
namespace {

using hugging_face::ConfigFile;
using nlohmann::json;

// The causal mask, kept as a buffer by older versions of transformers.
bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

hugging_face::NameMap name_map() {
  constexpr const char *kPrefix = "transformer.", *kHead = "lm_head.weight";
  return {.plain_name =
              [](const std::string& name) {
                if (is_mask(name)) return std::string();
                return name == kHead || name.starts_with(kPrefix) ? name : kPrefix + name;
              },
          .head = kHead,
          .tied_to = "transformer.wte.weight"};
}

// visit(key, value) for what config.json has as we have it.
template <class Config, class Visit>
void each_value(Config& config, Visit&& visit) {
  visit("vocab_size", config.vocab_size);
  visit("n_positions", config.n_positions);
  visit("n_embd", config.n_embd);
  visit("n_layer", config.n_layer);
  visit("n_head", config.n_head);
  visit("n_inner", config.n_inner);
  visit("layer_norm_epsilon", config.layer_norm_epsilon);
  visit("initializer_range", config.initializer_range);
  visit("embd_pdrop", config.embd_pdrop);
  visit("attn_pdrop", config.attn_pdrop);
  visit("resid_pdrop", config.resid_pdrop);
  visit("bos_token_id", config.bos_token_id);
  visit("eos_token_id", config.eos_token_id);
}

std::string format_gpt2_config(const Gpt2Config& config) {
  json values = {
      {"model_type", "gpt2"},
      {"architectures", {"GPT2LMHeadModel"}},
      {"activation_function", "gelu_new"},
      {"n_ctx", config.n_positions},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", true},
      {"use_cache", true},
      {"torch_dtype", "float32"},
  };
  each_value(config, [&](const char* key, auto value) { values[key] = value; });
  if (config.n_inner == 0) values["n_inner"] = nullptr;
  return values.dump(2) + "\n";
}

std::string format_generation_config(const Gpt2Config& config) {
  return json{{"bos_token_id", config.bos_token_id}, {"eos_token_id", config.eos_token_id}}.dump(2) + "\n";
}

}  // namespace

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
  each_value(config, [&](const char* key, auto& value) { file.read(key, value); });
  return file.checked(config);
}

Gpt2Config import_gpt2(const std::string& folder, Gpt2& model) {
  const Gpt2Config &ours = model.config(), theirs = read_gpt2_config(folder + "/config.json");
  hugging_face::Differences differences;
  differences.compare("the tokenizer's vocabulary", ours.vocab_size, theirs.vocab_size);
  differences.compare("task.model.n_layer", ours.n_layer, theirs.n_layer);
  differences.compare("task.model.n_head", ours.n_head, theirs.n_head);
  differences.compare("task.model.n_embd", ours.n_embd, theirs.n_embd);
  differences.compare("task.model.n_inner", ours.inner(), theirs.inner());
  differences.compare("task.model.n_positions", ours.n_positions, theirs.n_positions);
  differences.compare("task.model.layer_norm_epsilon", ours.layer_norm_epsilon, theirs.layer_norm_epsilon);
  differences.raise(folder);
  hugging_face::import_weights(folder, model.parameters(), name_map());
  return theirs;
}

void export_gpt2(const std::string& folder, const Gpt2& model) {
  hugging_face::export_weights(folder, model.parameters());
  hugging_face::write_text(folder + "/config.json", format_gpt2_config(model.config()));
  hugging_face::write_text(folder + "/generation_config.json", format_generation_config(model.config()));
}

}  // namespace pipeline::summarization
