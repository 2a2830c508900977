#include "language/options.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "hugging_face/config_fields.hpp"
#include "language/architecture.hpp"
#include "language/config.hpp"
#include "language/folder.hpp"

namespace pipeline::language {
namespace {

std::vector<std::string_view> architecture_names() {
  std::vector<std::string_view> names;
  for (const Architecture* row : architectures()) names.emplace_back(row->name);
  return names;
}

}  // namespace

void LanguageOptions::describe(Options& o) {
  o.group("lora", lora);
  o.group("rope_scaling", rope_scaling);
  o("architecture", architecture, "of the language model").choices(architecture_names()).of_model();
  hugging_face::describe_fields<Config>(o, model_fields(), *this);
}

void LanguageOptions::validate(const ConfigErrors& errors) const {
  const auto divides = [&](int64_t part, int64_t whole, const char* key, const char* other) {
    if (whole % part != 0) errors(key, concat("must divide task.language.", other, " (", whole, ")"));
  };
  const Architecture& row = language::architecture(architecture);
  const auto refuse = [&](bool is_used, bool is_there, const char* key) {
    if (is_used && !is_there) errors(key, concat("is not for architecture = \"", row.name, "\""));
  };
  const LanguageOptions none;
  hugging_face::each_field(model_fields(), [&](const auto& field, const auto member) {
    const bool has_none = field.help != nullptr && field.limits.kind != hugging_face::Limits::Kind::kPositive;
    refuse(has_none && this->*member != none.*member, row.has(field), field.name);
  });
  refuse(rope_scaling.type != "default", row.is_rotary, "rope_scaling.type");
  for (const auto& [key, size, what] : {std::tuple("layer_types", layer_types.size(), " names"),
                                        {"no_rope_layers", no_rope_layers.size(), " numbers"}})
    if (size > 0 && static_cast<int64_t>(size) != num_hidden_layers)
      errors(key, concat("has ", size, what, ": must be one for each of ", num_hidden_layers,
                         " layers (task.language.num_hidden_layers)"));
  if (!layer_types.empty() && sliding_window == 0)
    errors("layer_types", "is of no use without a window: set sliding_window, too, or leave it out");
  for (const std::string& type : layer_types)
    if (type != kFullAttention && type != kSlidingAttention)
      errors("layer_types",
             concat("has \"", type, "\": must be ", kFullAttention, " or ", kSlidingAttention));
  if (row.is_rotary && head_dim % 2 != 0) errors("head_dim", "must be even, for rotary positions");
  if (head_dim == 0 || !row.takes_any_head)
    divides(num_attention_heads, hidden_size, "num_attention_heads", "hidden_size");
  if (const auto problem =
          adapters::chosen(lora, lora_targets(model({.size = 1, .begin = 0, .end = 0}))).problem;
      !problem.empty())
    errors("lora.targets", problem);
  if (num_key_value_heads > 0)
    divides(num_key_value_heads, num_attention_heads, "num_key_value_heads", "num_attention_heads");
}

Config LanguageOptions::model(const VocabularyOf& tokenizer) const {
  const Architecture& row = language::architecture(architecture);
  Config made = static_cast<const Config&>(*this);
  made.vocab_size = std::max(tokenizer.size, vocab_size);
  made.written_tokens = vocab_size > tokenizer.size ? tokenizer.size : 0;
  if (row.gate) made.intermediate_size = usual_inner(*this);
  if (!row.has(&Config::tie_word_embeddings)) made.tie_word_embeddings = true;
  made.attention_bias = attention_bias || row.defaults.attention_bias;
  made.mlp_bias = mlp_bias || row.defaults.mlp_bias;
  made.bos_token_id = row.is_rotary ? tokenizer.begin : tokenizer.end;
  made.eos_token_id = tokenizer.end;
  return made;
}

namespace {

void tell_rope(const hugging_face::FolderOptions& tell, const RopeScaling& theirs) {
  tell("rope_scaling.type", theirs.type);
  visit_rope_values(theirs, [&](const char* key, const auto& value, bool) {
    tell(concat("rope_scaling.", key).c_str(), value);
  });
}

}  // namespace

void tell_options(const ModelOptions& say, const std::string& table, const std::filesystem::path& from,
                  const Config& theirs, const LanguageOptions& run) {
  const hugging_face::FolderOptions tell(say, table, from);
  const Architecture& row = architecture(theirs.architecture);
  tell("architecture", theirs.architecture);
  for (const auto& field : model_fields())
    if (row.has(field)) hugging_face::tell_field<Config>(tell, field, theirs, run);
  if (row.is_rotary) tell_rope(tell, theirs.rope_scaling);
}

}  // namespace pipeline::language
