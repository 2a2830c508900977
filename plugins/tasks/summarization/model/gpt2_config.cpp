#include "gpt2_config.hpp"

#include "hugging_face/config_file.hpp"

namespace pipeline::summarization {

void Gpt2Config::check() const {
  using namespace hugging_face;
  // Beyond any machine, and no product of them overflows.
  constexpr int64_t kMostRows = 1 << 24, kMostWidth = 1 << 20, kMostLayers = 1 << 14;
  check_range("vocab_size", vocab_size, 1, kMostRows);
  check_range("n_positions", n_positions, 1, kMostRows);
  check_range("n_embd", n_embd, 1, kMostWidth);
  check_range("n_layer", n_layer, 1, kMostLayers);
  check_range("n_head", n_head, 1, kMostWidth);
  check_range("n_inner", n_inner, 0, kMostWidth);
  if (n_embd % n_head != 0)
    fail_with(PL_ERROR_CONFIG, "n_head = ", n_head, ": must divide n_embd (", n_embd, ")");
  check_positive("layer_norm_epsilon", layer_norm_epsilon);
  check_positive("initializer_range", initializer_range);
  check_share("embd_pdrop", embd_pdrop);
  check_share("attn_pdrop", attn_pdrop);
  check_share("resid_pdrop", resid_pdrop);
}

}  // namespace pipeline::summarization
