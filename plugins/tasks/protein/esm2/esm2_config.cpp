#include "plugins/tasks/protein/esm2/esm2_config.hpp"

#include <stdexcept>
#include <string>

namespace pipeline::protein {
namespace {

template <class T>
[[noreturn]] void fail(const char* key, T value, const std::string& problem) {
  throw std::invalid_argument(std::string(key) + " = " + std::to_string(value) + ": " + problem);
}

void at_least(const char* key, int64_t value, int64_t least) {
  if (value < least) fail(key, value, "must be at least " + std::to_string(least));
}

void probability(const char* key, double value) {
  if (!(value >= 0 && value < 1)) fail(key, value, "must be at least 0 and below 1");
}

void positive(const char* key, double value) {
  if (!(value > 0)) fail(key, value, "must be above 0");
}

}  // namespace

void Esm2Config::check() const {
  at_least("num_layers", num_layers, 1);
  at_least("hidden_dim", hidden_dim, 1);
  at_least("num_heads", num_heads, 1);
  at_least("intermediate", intermediate, 0);
  if (hidden_dim % num_heads != 0)
    fail("num_heads", num_heads, "must divide hidden_dim (" + std::to_string(hidden_dim) + ")");
  if (head_width() % 2 != 0)
    fail("num_heads", num_heads,
         "gives heads of " + std::to_string(head_width()) + " channels: rotary positions need an even number");
  probability("hidden_dropout", hidden_dropout);
  probability("attention_dropout", attention_dropout);
  positive("layer_norm_epsilon", layer_norm_epsilon);
  positive("initializer_range", initializer_range);
}

}  // namespace pipeline::protein
