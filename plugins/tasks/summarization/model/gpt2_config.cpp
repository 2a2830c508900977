#include "gpt2_config.hpp"

#include <stdexcept>
#include <string>

namespace pipeline::summarization {
namespace {

void at_least(const char* key, int64_t value, int64_t least) {
  if (value < least) {
    throw std::invalid_argument(std::string(key) + " = " + std::to_string(value) + ": must be at least " +
                                std::to_string(least));
  }
}

void probability(const char* key, double value) {
  if (!(value >= 0 && value < 1)) {
    throw std::invalid_argument(std::string(key) + " = " + std::to_string(value) +
                                ": must be at least 0 and below 1");
  }
}

}  // namespace

void Gpt2Config::check() const {
  at_least("vocab_size", vocab_size, 1);
  at_least("n_positions", n_positions, 1);
  at_least("n_embd", n_embd, 1);
  at_least("n_layer", n_layer, 1);
  at_least("n_head", n_head, 1);
  at_least("n_inner", n_inner, 0);
  if (n_embd % n_head != 0) {
    throw std::invalid_argument("n_head = " + std::to_string(n_head) + ": must divide n_embd (" +
                                std::to_string(n_embd) + ")");
  }
  if (!(layer_norm_epsilon > 0)) {
    throw std::invalid_argument("layer_norm_epsilon = " + std::to_string(layer_norm_epsilon) +
                                ": must be above 0");
  }
  if (!(initializer_range > 0)) {
    throw std::invalid_argument("initializer_range = " + std::to_string(initializer_range) +
                                ": must be above 0");
  }
  probability("embd_pdrop", embd_pdrop);
  probability("attn_pdrop", attn_pdrop);
  probability("resid_pdrop", resid_pdrop);
}

}  // namespace pipeline::summarization
