#include "plugins/tasks/protein/esm2/esm2_config.hpp"

#include "hugging_face/config_file.hpp"

namespace pipeline::protein {

void Esm2Config::check() const {
  using namespace hugging_face;
  check_range("num_layers", num_layers, 1, kMostLayers);
  check_range("hidden_dim", hidden_dim, 1, kMostWidth);
  check_range("num_heads", num_heads, 1, kMostWidth);
  check_range("intermediate", intermediate, 0, kMostWidth);
  if (hidden_dim % num_heads != 0)
    fail_with(PL_ERROR_CONFIG, "num_heads = ", num_heads, ": must divide hidden_dim (", hidden_dim, ")");
  if (head_width() % 2 != 0)
    fail_with(PL_ERROR_CONFIG, "num_heads = ", num_heads, ": gives heads of ", head_width(),
              " channels: rotary positions need an even number");
  check_share("hidden_dropout", hidden_dropout);
  check_share("attention_dropout", attention_dropout);
  check_positive("layer_norm_epsilon", layer_norm_epsilon);
  check_positive("initializer_range", initializer_range);
}

}  // namespace pipeline::protein
