#include "language/architecture.hpp"

#include <algorithm>
#include <vector>

namespace pipeline::language {
namespace {

void read_nulls(const Architecture& row, const hugging_face::ConfigFile& file, Config& config) {
  const std::vector<std::string> keys = file.keys();
  hugging_face::each_field(model_fields(), [&](const auto& field, const auto member) {
    const std::string key = row.key(member, "");
    if (field.is_0_where_null && std::ranges::find(keys, key) != keys.end() && file.find(key) == nullptr)
      config.*member = {};
  });
}

}  // namespace

// Each is in the file of its family.
const Architecture& gpt2();
const Architecture& llama();
const Architecture& gemma2();
const Architecture& gemma3();
const Architecture& mistral();
const Architecture& olmo2();
const Architecture& phi3();
const Architecture& qwen2();
const Architecture& qwen3();
const Architecture& smollm3();

std::span<const Architecture* const> architectures() {
  static const std::vector<const Architecture*> kAll{&llama(),  &gpt2(),   &mistral(), &qwen2(), &qwen3(),
                                                     &gemma2(), &gemma3(), &smollm3(), &olmo2(), &phi3()};
  return kAll;
}

const Architecture& architecture(const std::string& name) {
  std::string known;
  for (const Architecture* row : architectures()) {
    if (row->name == name) return *row;
    known += concat(known.empty() ? "" : ", ", row->name);
  }
  fail_with(PL_ERROR_CONFIG, "architecture = \"", name, "\": must be one of ", known);
}

Config Architecture::config(const hugging_face::ConfigFile& file) const {
  file.type({name});
  Config config = hugging_face::read_fields(file, fields, config_class, defaults);
  read_nulls(*this, file, config);
  for (const auto& [key, id] :
       {std::pair("bos_token_id", &config.bos_token_id), {"eos_token_id", &config.eos_token_id}})
    if (const nlohmann::json* value = file.find(key); value != nullptr && value->is_number_integer())
      *id = value->get<int64_t>();
  if (is_rotary && !has_local_positions)
    read_rope(file, config_class, config.rope_scaling, config.rope_theta);
  if (read != nullptr) read(file, config);
  complete_rope(config.rope_scaling, config.max_position_embeddings);
  return file.checked(config);
}

nlohmann::json Architecture::json(const Config& config) const {
  nlohmann::json values = written;
  values.update({{"model_type", name},
                 {"use_cache", true},
                 {"torch_dtype", "float32"},
                 {"bos_token_id", config.bos_token_id},
                 {"eos_token_id", config.eos_token_id}});
  Config whole = config;
  whole.num_key_value_heads = config.key_heads();
  whole.head_dim = config.head_width();
  if (config.query_pre_attn_scalar == 0) whole.query_pre_attn_scalar = config.head_width();
  hugging_face::write_fields(whole, fields, values);
  if (nlohmann::json scaling = rope_json(config.rope_scaling); !scaling.is_null())
    values["rope_scaling"] = scaling;
  if (write != nullptr) write(config, values);
  return values;
}

}  // namespace pipeline::language
