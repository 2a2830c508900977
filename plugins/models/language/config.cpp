#include "language/config.hpp"

#include <cmath>

#include "language/architecture.hpp"
#include "language/layer_types.hpp"

namespace pipeline::language {

void Config::check() const {
  using namespace hugging_face;
  // Beyond any machine, and no product of them overflows.
  constexpr int64_t kMostRows = 1 << 24, kMostWidth = 1 << 20, kMostLayers = 1 << 14;
  const Architecture& row = language::architecture(architecture);
  const auto range = [&](int64_t Config::*member, const char* name, int64_t least, int64_t most) {
    check_range(row.key(member, name).c_str(), this->*member, least, most);
  };
  range(&Config::vocab_size, "vocab_size", 1, kMostRows);
  range(&Config::max_position_embeddings, "max_position_embeddings", 1, kMostRows);
  range(&Config::hidden_size, "hidden_size", 1, kMostWidth);
  range(&Config::num_hidden_layers, "num_hidden_layers", 1, kMostLayers);
  range(&Config::num_attention_heads, "num_attention_heads", 1, kMostWidth);
  range(&Config::num_key_value_heads, "num_key_value_heads", 0, num_attention_heads);
  range(&Config::head_dim, "head_dim", 0, kMostWidth);
  range(&Config::sliding_window, "sliding_window", 0, kMostRows);
  range(&Config::intermediate_size, "intermediate_size", 0, kMostWidth);
  const std::string heads = row.key(&Config::num_attention_heads, "num_attention_heads");
  if (head_dim == 0 && hidden_size % num_attention_heads != 0)
    fail_with(PL_ERROR_CONFIG, heads, " = ", num_attention_heads, ": must divide ",
              row.key(&Config::hidden_size, "hidden_size"), " (", hidden_size, ")");
  if (num_attention_heads % key_heads() != 0)
    fail_with(PL_ERROR_CONFIG, "num_key_value_heads = ", num_key_value_heads,
              ": must divide num_attention_heads (", num_attention_heads, ")");
  if (row.is_rotary && head_width() % 2 != 0)
    fail_with(PL_ERROR_CONFIG, head_dim > 0 ? "head_dim" : heads, " = ",
              head_dim > 0 ? head_dim : num_attention_heads, ": gives heads of ", head_width(),
              " channels: rotary positions need an even number");
  const auto positive = [&](double Config::*member, const char* name) {
    check_positive(row.key(member, name).c_str(), this->*member);
  };
  positive(&Config::norm_eps, "norm_eps");
  positive(&Config::rope_theta, "rope_theta");
  range(&Config::max_window_layers, "max_window_layers", 0, kMostLayers);
  range(&Config::full_attention_every, "full_attention_every", 0, kMostLayers);
  if (!layer_types.empty() && static_cast<int64_t>(layer_types.size()) != num_hidden_layers)
    fail_with(PL_ERROR_CONFIG, "layer_types has ", layer_types.size(), " names: must be one for each of ",
              num_hidden_layers, " layers");
  for (const std::string& type : layer_types)
    if (type != kFullAttention && type != kSlidingAttention)
      fail_with(PL_ERROR_CONFIG, "layer_types has \"", type, "\": must be ", kFullAttention, " or ",
                kSlidingAttention);
  range(&Config::query_pre_attn_scalar, "query_pre_attn_scalar", 0, kMostWidth);
  for (const auto& [member, name] : {std::pair(&Config::rope_local_theta, "rope_local_theta"),
                                     {&Config::attn_logit_softcapping, "attn_logit_softcapping"},
                                     {&Config::final_logit_softcapping, "final_logit_softcapping"}})
    if (!(this->*member >= 0) || std::isinf(this->*member))
      fail_with(PL_ERROR_CONFIG, row.key(member, name), " = ", this->*member, ": must be a number from 0 on");
  rope_scaling.check(head_width());
  if (rope_scaling.type == "yarn" && !(rope_theta > 1))
    fail_with(PL_ERROR_CONFIG, "rope_theta = ", rope_theta, ": must be above 1 for yarn positions");
  positive(&Config::initializer_range, "initializer_range");
  for (const auto& [member, name] : {std::pair(&Config::embedding_dropout, "embedding_dropout"),
                                     {&Config::attention_dropout, "attention_dropout"},
                                     {&Config::residual_dropout, "residual_dropout"}})
    check_share(row.key(member, name).c_str(), this->*member);
}

}  // namespace pipeline::language
