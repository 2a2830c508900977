#include "language/options.hpp"

#include <algorithm>

#include "hugging_face/folder_teller.hpp"
#include "language/adapter.hpp"
#include "language/architecture.hpp"
#include "language/layer_types.hpp"

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
  o("vocab_size", vocab_size, "rows of the embedding; 0, or too few: as many as the tokenizer has tokens")
      .min(0)
      .max(1 << 24)
      .of_model();
  o("hidden_size", hidden_size, "width of the residual stream").min(1).of_model();
  o("num_hidden_layers", num_hidden_layers, "layers").min(1).of_model();
  o("num_attention_heads", num_attention_heads, "attention heads").min(1).of_model();
  o("num_key_value_heads", num_key_value_heads,
    "heads of keys and values; 0: num_attention_heads; not for gpt2")
      .min(0)
      .of_model();
  o("head_dim", head_dim, "channels of a head; 0: hidden_size / num_attention_heads; not for gpt2")
      .min(0)
      .of_model();
  o("intermediate_size", intermediate_size,
    "width of the feed-forward layer; 0: 8/3 x hidden_size in multiples of 32, with gpt2 4 x hidden_size")
      .min(0)
      .of_model();
  o("max_position_embeddings", max_position_embeddings, "longest sequence, a picture's patches included")
      .unit("tokens")
      .min(8)
      .of_model();
  o("sliding_window", sliding_window, "mistral, qwen, gemma: how many tokens a token sees; 0: all before it")
      .unit("tokens")
      .min(0)
      .of_model();
  o("max_window_layers", max_window_layers, "qwen: so many layers at the beginning have no window")
      .unit("layers")
      .min(0)
      .of_model();
  o("full_attention_every", full_attention_every,
    "gemma: of so many layers the last one sees all tokens before it; 0: none does, where there is a window")
      .unit("layers")
      .min(0)
      .of_model();
  o("layer_types", layer_types,
    "qwen, gemma: which layers have the window, in any order, a name for each: sliding_attention, "
    "full_attention; empty: as max_window_layers and full_attention_every say")
      .of_model();
  o("rope_local_theta", rope_local_theta, "gemma3: rope_theta of the layers with a window; 0: as the others")
      .min(0)
      .of_model();
  o("query_pre_attn_scalar", query_pre_attn_scalar,
    "gemma: products of queries and keys are divided by its root; 0: head_dim")
      .min(0)
      .of_model();
  o("attn_logit_softcapping", attn_logit_softcapping, "gemma: cap of attention's scores; 0: none")
      .min(0)
      .of_model();
  o("final_logit_softcapping", final_logit_softcapping, "gemma: cap of the logits; 0: none")
      .min(0)
      .of_model();
  o("norm_eps", norm_eps, "added to the variance").above(0).of_model();
  o("rope_theta", rope_theta, "base of the rotary positions; not for gpt2").above(0).of_model();
  o("tie_word_embeddings", tie_word_embeddings, "the embedding is the output head, too; always with gpt2")
      .of_model();
  o("attention_bias", attention_bias, "biases in attention; gpt2 and qwen2 always have them, mistral never")
      .of_model();
  o("mlp_bias", mlp_bias, "llama: biases in the feed-forward layer; gpt2 always has them").of_model();
  o("dropout", dropout, "of attention weights; gpt2: also of the embedding and before residual additions")
      .min(0)
      .below(1)
      .follows();
  o("initializer_range", initializer_range, "standard deviation of initial weights").above(0).follows();
}

void LanguageOptions::validate(const ConfigErrors& errors) const {
  const auto divides = [&](int64_t part, int64_t whole, const char* key, const char* other) {
    if (whole % part != 0) errors(key, concat("must divide task.language.", other, " (", whole, ")"));
  };
  const Architecture& row = language::architecture(architecture);
  const auto refuse = [&](bool is_used, bool is_there, const char* key) {
    if (is_used && !is_there) errors(key, concat("is not for architecture = \"", row.name, "\""));
  };
  refuse(head_dim > 0, row.is_rotary, "head_dim");
  refuse(num_key_value_heads > 0, row.is_rotary, "num_key_value_heads");
  refuse(rope_scaling.type != "default", row.is_rotary, "rope_scaling.type");
  refuse(sliding_window > 0, row.has(&Config::sliding_window), "sliding_window");
  refuse(max_window_layers > 0, row.has(&Config::max_window_layers), "max_window_layers");
  refuse(full_attention_every > 0, row.has(&Config::query_pre_attn_scalar), "full_attention_every");
  refuse(!layer_types.empty(), row.has(&Config::max_window_layers) || row.has(&Config::query_pre_attn_scalar),
         "layer_types");
  if (!layer_types.empty() && static_cast<int64_t>(layer_types.size()) != num_hidden_layers)
    errors("layer_types", concat("has ", layer_types.size(), " names: must be one for each of ",
                                 num_hidden_layers, " layers (task.language.num_hidden_layers)"));
  if (!layer_types.empty() && sliding_window == 0)
    errors("layer_types", "is of no use without a window: set sliding_window, too, or leave it out");
  for (const std::string& type : layer_types)
    if (type != kFullAttention && type != kSlidingAttention)
      errors("layer_types",
             concat("has \"", type, "\": must be ", kFullAttention, " or ", kSlidingAttention));
  refuse(rope_local_theta > 0, row.has(&Config::rope_local_theta), "rope_local_theta");
  refuse(query_pre_attn_scalar > 0, row.has(&Config::query_pre_attn_scalar), "query_pre_attn_scalar");
  refuse(attn_logit_softcapping > 0, row.has(&Config::attn_logit_softcapping), "attn_logit_softcapping");
  refuse(final_logit_softcapping > 0, row.has(&Config::final_logit_softcapping), "final_logit_softcapping");
  refuse(!tie_word_embeddings, row.has(&Config::tie_word_embeddings), "tie_word_embeddings");
  refuse(attention_bias, row.has(&Config::attention_bias), "attention_bias");
  refuse(mlp_bias, row.has(&Config::mlp_bias), "mlp_bias");
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

int64_t LanguageOptions::inner() const {
  if (intermediate_size > 0) return intermediate_size;
  if (!language::architecture(architecture).is_gated) return 4 * hidden_size;
  constexpr int64_t kMultiple = 32;
  return (8 * hidden_size / 3 + kMultiple - 1) / kMultiple * kMultiple;
}

Config LanguageOptions::model(const VocabularyOf& tokenizer) const {
  const Architecture& row = language::architecture(architecture);
  return {.architecture = architecture,
          .vocab_size = std::max(tokenizer.size, vocab_size),
          .written_tokens = vocab_size > tokenizer.size ? tokenizer.size : 0,
          .max_position_embeddings = max_position_embeddings,
          .hidden_size = hidden_size,
          .num_hidden_layers = num_hidden_layers,
          .num_attention_heads = num_attention_heads,
          .num_key_value_heads = num_key_value_heads,
          .head_dim = head_dim,
          .intermediate_size = row.is_gated ? inner() : intermediate_size,
          .norm_eps = norm_eps,
          .rope_theta = rope_theta,
          .rope_scaling = rope_scaling,
          .initializer_range = initializer_range,
          .embedding_dropout = row.has(&Config::embedding_dropout) ? dropout : 0,
          .attention_dropout = dropout,
          .residual_dropout = row.has(&Config::residual_dropout) ? dropout : 0,
          .tie_word_embeddings = tie_word_embeddings || !row.has(&Config::tie_word_embeddings),
          .attention_bias = attention_bias || row.defaults.attention_bias,
          .mlp_bias = mlp_bias || row.defaults.mlp_bias,
          .sliding_window = sliding_window,
          .max_window_layers = max_window_layers,
          .full_attention_every = full_attention_every,
          .layer_types = layer_types,
          .rope_local_theta = rope_local_theta,
          .query_pre_attn_scalar = query_pre_attn_scalar,
          .attn_logit_softcapping = attn_logit_softcapping,
          .final_logit_softcapping = final_logit_softcapping,
          .bos_token_id = row.is_rotary ? tokenizer.begin : tokenizer.end,
          .eos_token_id = tokenizer.end};
}

namespace {

void tell_rope(const hugging_face::FolderTeller& tell, const RopeScaling& theirs) {
  tell("rope_scaling.type", theirs.type);
  visit_rope_values(theirs, [&](const char* key, const auto& value, bool) {
    tell(concat("rope_scaling.", key).c_str(), value);
  });
}

void tell_dropout(const hugging_face::FolderTeller& tell, const Architecture& row, const Config& theirs) {
  const bool is_one =
      !row.has(&Config::embedding_dropout) || (theirs.embedding_dropout == theirs.attention_dropout &&
                                               theirs.attention_dropout == theirs.residual_dropout);
  if (is_one) return tell("dropout", theirs.attention_dropout);
  if (tell.is_set("dropout")) return;
  const auto named = [&](double Config::*member) { return concat(row.key(member, ""), " ", theirs.*member); };
  tell.problem("dropout", concat(tell.file(), " has three: ", named(&Config::embedding_dropout), ", ",
                                 named(&Config::attention_dropout), ", ", named(&Config::residual_dropout),
                                 ": set the one to train with"));
}

}  // namespace

void tell_options(const ModelOptions& say, const std::string& table, const std::filesystem::path& from,
                  const Config& theirs, const LanguageOptions& run) {
  const hugging_face::FolderTeller tell(say, table, from);
  const Architecture& row = architecture(theirs.architecture);
  LanguageOptions same = run;  // of what 0 stands for
  same.architecture = theirs.architecture;
  same.hidden_size = theirs.hidden_size;
  tell("architecture", theirs.architecture);
  tell("vocab_size", theirs.vocab_size);
  tell("hidden_size", theirs.hidden_size);
  tell("num_hidden_layers", theirs.num_hidden_layers);
  tell("num_attention_heads", theirs.num_attention_heads);
  tell("intermediate_size", theirs.intermediate_size, run.intermediate_size, same.inner() == theirs.inner());
  tell("max_position_embeddings", theirs.max_position_embeddings, run.max_position_embeddings,
       row.is_rotary && run.max_position_embeddings < theirs.max_position_embeddings);
  tell("norm_eps", theirs.norm_eps);
  tell("initializer_range", theirs.initializer_range);
  tell_dropout(tell, row, theirs);
  if (!row.is_rotary) return;
  tell("num_key_value_heads", theirs.key_heads(), run.num_key_value_heads,
       run.num_key_value_heads == 0 && theirs.key_heads() == theirs.num_attention_heads);
  const bool is_usual = theirs.head_width() * theirs.num_attention_heads == theirs.hidden_size;
  tell("head_dim", is_usual ? int64_t{0} : theirs.head_dim, run.head_dim,
       run.head_dim == theirs.head_width());
  tell("rope_theta", theirs.rope_theta);
  tell_rope(tell, theirs.rope_scaling);
  tell("tie_word_embeddings", theirs.tie_word_embeddings);
  if (row.has(&Config::attention_bias)) tell("attention_bias", theirs.attention_bias);
  if (row.has(&Config::mlp_bias)) tell("mlp_bias", theirs.mlp_bias);
  if (row.has(&Config::sliding_window)) tell("sliding_window", theirs.sliding_window);
  if (row.has(&Config::max_window_layers)) tell("max_window_layers", theirs.max_window_layers);
  if (row.has(&Config::max_window_layers) || row.has(&Config::query_pre_attn_scalar))
    tell("layer_types", theirs.layer_types);
  if (!row.has(&Config::query_pre_attn_scalar)) return;
  tell("full_attention_every", theirs.full_attention_every);
  tell("rope_local_theta", theirs.rope_local_theta);
  tell("query_pre_attn_scalar", theirs.query_pre_attn_scalar);
  tell("attn_logit_softcapping", theirs.attn_logit_softcapping);
  tell("final_logit_softcapping", theirs.final_logit_softcapping);
}

}  // namespace pipeline::language
