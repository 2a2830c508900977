// Phi-3 (arXiv:2404.14219) and the Phi-4 that has its classes: Llama, in whose folders queries, keys and
// values are one matrix, and gate and up another.
#include "language/llama.hpp"

namespace pipeline::language {
namespace {

using hugging_face::ConfigFile;

constexpr const char* kOriginal = "original_max_position_embeddings";

// With long positions the length that the model first learnt from stands beside them, and goes first.
void read_original(const ConfigFile& file, Config& config) {
  const std::string& type = config.rope_scaling.type;
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (file.find(key) != nullptr && type != "default" && type != "longrope")
      file.fail(key, concat("a Phi-3 has the type \"default\" or \"longrope\", and this is \"", type, "\""));
  if (type != "longrope") return;
  config.rope_scaling.original_max_position_embeddings = 4096;
  file.read(kOriginal, config.rope_scaling.original_max_position_embeddings);
}

}  // namespace

const Architecture& phi3() {
  using namespace hugging_face;
  static const Architecture kRow{.name = "phi3",
                                 .config_class = "Phi3Config",
                                 .model_class = "Phi3ForCausalLM",
                                 .defaults = {.architecture = "phi3",
                                              .vocab_size = 32064,
                                              .max_position_embeddings = 4096,
                                              .hidden_size = 3072,
                                              .num_hidden_layers = 32,
                                              .num_attention_heads = 32,
                                              .intermediate_size = 8192,
                                              .tie_word_embeddings = false,
                                              .bos_token_id = 1,
                                              .eos_token_id = 32000},
                                 .fields = llama_fields({
                                     {"sliding_window", &Config::sliding_window},
                                     {"partial_rotary_factor", only({1.0})},
                                     {"resid_pdrop", only({0.0})},
                                     {"embd_pdrop", kWithoutEffect},  // transformers' class does not use it
                                     {kOriginal, kReadElsewhere},
                                 }),
                                 .read = read_original,
                                 .write =
                                     [](const Config& config, nlohmann::json& values) {
                                       if (config.sliding_window == 0) values["sliding_window"] = nullptr;
                                       const RopeScaling& rope = config.rope_scaling;
                                       values[kOriginal] = rope.type == "longrope"
                                                               ? rope.original_max_position_embeddings
                                                               : config.max_position_embeddings;
                                     },
                                 .written = {{"hidden_act", "silu"}, {"pad_token_id", nullptr}},
                                 .names = {.is_split = false}};
  return kRow;
}

}  // namespace pipeline::language
